"""The case study that `tilegate demo` runs: over-fusion that wins alone and loses in a burst, then its bounded fix.

Both candidates stand in `scenarios/` as any user would write them; only the models are made here, by the project's own
generator. Nothing about the outcome is written down but `EXPECTED`, which the demo compares with what the gate says.
"""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

EXPECTED = {"overfused": "NO_GO", "fixed": "GO"}
CASES = {"failing": "overfused", "fixed": "fixed"}
TRANSFORMER = {"hidden": 256, "heads": 4, "feed_forward": 1024}
CONVOLUTION = {"channels": 256, "size": 56, "blocks": 2}


def write_demo(out: Path) -> dict[str, Path]:
    """Candidate files by name, with their models beside them, in `out`. Files that are there are written anew."""
    from accelmodel.generate import write_model

    (out / "models").mkdir(parents=True, exist_ok=True)
    write_model("transformer_block", out / "models" / "transformer_block.onnx", seed=1, **TRANSFORMER)
    write_model("convolution_block", out / "models" / "convolution_block.onnx", seed=1, **CONVOLUTION)
    written = {}
    for name in EXPECTED:
        with as_file(files("flows") / "scenarios" / f"{name}.yaml") as source:
            written[name] = Path(shutil.copyfile(source, out / f"{name}.yaml"))
    return written


def run_demo(*, only: str | None, out: Path) -> int:
    """Run the case study in `out`; print each verdict and where its report is.

    only: `failing` or `fixed`, None for both. Gives 0 where each verdict is the expected one, else 1.
    """
    from rich.console import Console

    from flows.commands.run import judge_candidate, print_summary
    from flows.embedded import orchestration
    from flows.store import Store

    console = Console()
    candidates = write_demo(out)
    store = Store.at(out / "runs")
    store.make()
    names = [CASES[only]] if only else list(EXPECTED)
    summaries: dict[str, dict[str, Any]] = {}
    with orchestration(store.prefect_home) as server:
        for name in names:
            summaries[name] = judge_candidate(candidates[name], store, server, show=True)
            print_summary(console, summaries[name])
            console.print()
    _print_close(console, summaries)
    return 0 if all(summary["verdict"] == EXPECTED[name] for name, summary in summaries.items()) else 1


def _print_close(console: Any, summaries: dict[str, dict[str, Any]]) -> None:
    """Where the reports are, and what orchestration took of the time."""
    for name, summary in summaries.items():
        verdict, expected = summary["verdict"], EXPECTED[name]
        note = "" if verdict == expected else f"  expected {expected}: please report this"
        console.print(f"{name}: {verdict}{note}", highlight=False)
        console.print(f"  report {summary['report']}", highlight=False, soft_wrap=True)
    seconds = [summary["seconds"] for summary in summaries.values()]
    work = sum(taken["work"] for taken in seconds)
    orchestration = sum(taken["orchestration"] for taken in seconds)
    console.print(f"stages {work:.1f} s, orchestration {orchestration:.1f} s", highlight=False)
