"""The whole command line from outside: `python -m tests.benchmarks.end_to_end [--json] [--suite]`.

Wall seconds (median of the warm runs; the first run of each case is not counted) and peak memory of the process tree:
`tilegate --help`, `tilegate plan` of ResNet-50 on each kind of target, `tilegate demo` from an empty folder, with the
part that orchestration takes stated apart, a whole run over three networks and the Azure trace on each target (where
the reference data is), and with --suite the test suite.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx

from tests.benchmarks.measure import TILEGATE, Measured, measure
from tests.benchmarks.report import publish
from tests.flows.test_real_models import write_real

RESNET_50 = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
TARGETS = ("a100-40gb", "edge-npu")
NETWORKS = ("resnet50", "densenet121", "squeezenet")
DATA = Path(os.environ.get("TILEGATE_REFERENCE_DATA", Path(__file__).parents[3] / "shared/data"))
TRACE = DATA / "traffic/AzureLLMInferenceTrace_code.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--suite", action="store_true", help="also time the test suite (minutes)")
    given = parser.parse_args()
    rows = [_row("help", [*TILEGATE, "--help"], limit_s=1.0, runs=5)]
    for target in TARGETS:
        command = [*TILEGATE, "plan", str(RESNET_50), "--target", target]
        rows.append(_row(f"plan resnet50 {target}", command, limit_s=5.0, runs=3))
    rows.append(_demo_row())
    rows += [_gate_row(target) for target in TARGETS] if TRACE.is_file() else []
    if given.suite:
        rows.append(_row("test suite", [sys.executable, "-m", "pytest", "-q"], limit_s=600.0, runs=1, warmup=0))
    publish("end_to_end", rows, as_json=given.json)


def _row(case: str, command: list[str], *, limit_s: float, runs: int, warmup: int = 1) -> dict[str, Any]:
    taken = [_expect(case, measure(command), 0) for _ in range(warmup + runs)][warmup:]
    return _figures(case, taken, limit_s)


def _demo_row() -> dict[str, Any]:
    """The demo twice, each from an empty folder: the first warms code caches, the second counts."""
    taken = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            taken.append(_expect("demo", measure([*TILEGATE, "demo", "--out", folder]), 0))
    last = taken[-1]
    found = re.search(r"stages ([\d.]+) s, orchestration ([\d.]+) s", last.stdout)
    if found is None:
        raise SystemExit(f"demo: no line with its times in\n{last.stdout}")
    row = _figures("demo", [last], 60.0)
    return {**row, "work_seconds": float(found[1]), "orchestration_seconds": float(found[2])}


def _gate_row(target: str) -> dict[str, Any]:
    """A whole run from an empty store: three networks, and a transformer block under the Azure trace."""
    with tempfile.TemporaryDirectory() as folder:
        candidate = write_real(Path(folder), target, NETWORKS, TRACE)
        command = [*TILEGATE, "run", str(candidate), "--store", str(Path(folder) / "runs"), "--json"]
        taken = _expect(f"run {target}", measure(command), 0)
    seconds = json.loads(taken.stdout)["seconds"]
    row = _figures(f"run 4 workloads {target}", [taken], None)
    return {**row, "work_seconds": seconds["work"], "orchestration_seconds": seconds["orchestration"]}


def _expect(case: str, taken: Measured, exit_code: int) -> Measured:
    if taken.exit_code != exit_code:
        raise SystemExit(f"{case}: exit code {taken.exit_code}, expected {exit_code}\n{taken.stdout}{taken.stderr}")
    return taken


def _figures(case: str, taken: list[Measured], limit_s: float | None) -> dict[str, Any]:
    return {
        "case": case,
        "runs": len(taken),
        "seconds": statistics.median(item.seconds for item in taken),
        "limit_seconds": limit_s,
        "peak_mib": max(item.peak_mib for item in taken),
        "work_seconds": None,
        "orchestration_seconds": None,
    }


if __name__ == "__main__":
    main()
