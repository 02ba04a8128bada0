"""`tilegate run`: one candidate from file to verdict, in the terminal."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flows.commands.nothing_left import nothing_left
from flows.embedded import Server, orchestration
from flows.progress import watcher
from flows.store import Store, read_log
from flows.timings import worked_s
from schemas.words import spaced

VERDICT_STYLES = {"GO": "bold green", "HOLD": "bold yellow", "NO_GO": "bold red"}
SHOWN_WARNINGS = 3
# Of `seconds`, what is no stage, in the order and the words in which it is printed.
TOTALS = {
    "work": "stages at work", "orchestration": "orchestration", "server_wait": "of it, waiting for the server",
    "total": "total",
}  # fmt: skip


def run_candidate(
    candidate: Path, store: Path | None, *, as_json: bool = False, quiet: bool = False, timings: bool = False
) -> int:
    """Run the gate on a candidate file; gives the exit code of the verdict."""
    place = Store.at(store)
    with nothing_left(place), orchestration(place.prefect_home) as server:
        summary = judge_candidate(candidate, place, server, show=not (as_json or quiet))
    if as_json:
        print(json.dumps(summary))
    elif quiet:
        print(summary["verdict"])
    else:
        print_summary(Console(), summary)
    if timings and not as_json:
        print_timings(Console(), summary["seconds"])
    return int(summary["exit_code"])


def judge_candidate(candidate: Path, store: Store, server: Server, *, show: bool) -> dict[str, Any]:
    """Run the gate within an orchestration that is there already; several runs may share one.

    Gives the summary of the run. Its `seconds` are wall times: of each stage, of the stages' own work (`work`), of
    orchestrating it (`orchestration`: waiting for the embedded server, and the flow beyond that work), and of it all
    (`total`).
    """
    from flows.inputs import load_candidate

    load_candidate(candidate)  # bad input ends here, before anything waits for a server
    from flows.release_gate import release_gate
    from flows.unattended import without_heartbeat

    begun = time.perf_counter()
    server.wait()
    waited, since = time.perf_counter(), time.time()
    with _progress() if show else nullcontext(), without_heartbeat() if server.unattended else nullcontext():
        summary: Any = release_gate(candidate=str(candidate), store=str(store.root))
    flow_s, seconds = time.perf_counter() - waited, summary["seconds"]
    work_s = worked_s(read_log(store.execution_log(summary["run_id"])), os.getpid(), since)
    own_s = work_s + seconds.get("closing", 0.0) + seconds.get("loading", 0.0)
    total_s = waited - begun + flow_s
    extra = {"server_wait": waited - begun, "work": work_s, "orchestration": total_s - own_s, "total": total_s}
    return {**summary, "seconds": {**seconds, **{name: round(value, 3) for name, value in extra.items()}}}


def print_summary(console: Console, summary: Mapping[str, Any]) -> None:
    """The verdict and what to do, for a person."""
    from reports.anchors import html_id

    verdict, first = summary["verdict"], summary["first_failing_mechanism"]
    style = VERDICT_STYLES[verdict]
    only = "  [dim](MODEL-ONLY)[/]" if summary["model_only"] else ""
    console.print(f"[{style}]{verdict}[/]  {summary['candidate']}{only}", highlight=False)
    lines = {
        "first failing mechanism": first,
        "bottleneck": summary["bottleneck"],
        "finding": summary["finding"] or "; ".join(summary["reasons"]),
        "owner": _owner(summary["owner"], summary["owner_role"]),
        "next action": summary["next_action"],
    }
    links = {
        "proof": summary["proof"] and f"{summary['report']}#{html_id(summary['proof'])}", "report": summary["report"],
    }  # fmt: skip
    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        if value:
            table.add_row(f"[dim]{name}[/]", _plain(str(value)))
    console.print(table)
    for name, value in links.items():
        if value:  # whole, however long: a line that is broken cannot be copied
            console.print(f"[dim]{name}[/] ", _plain(str(value)), soft_wrap=True)
    _print_warnings(console, summary["warnings"])


def _owner(owner: str | None, role: str | None) -> str | None:
    """The holder with the role in words; the role alone where the policy names nobody."""
    if not owner or not role:
        return owner
    return spaced(role) if owner == role else f"{owner} ({spaced(role)})"


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for text in warnings[:SHOWN_WARNINGS]:
        console.print("[yellow]warning[/] ", _plain(text))
    if len(warnings) > SHOWN_WARNINGS:
        console.print(f"[yellow]{len(warnings) - SHOWN_WARNINGS} more warnings[/] stand in the report")


def print_timings(console: Console, seconds: Mapping[str, float]) -> None:
    """Wall seconds of each stage, then what they and orchestration took of the whole."""
    stages = {name: value for name, value in seconds.items() if name not in TOTALS}
    for title, rows in (("stage", stages), ("of it all", {TOTALS[name]: seconds[name] for name in TOTALS})):
        table = Table(title, "seconds", box=None)
        table.columns[0].min_width = max(map(len, TOTALS.values()))
        table.columns[1].justify = "right"
        for name, value in rows.items():
            table.add_row(name, f"{value:.2f}")
        console.print(table)


def _plain(text: str) -> Any:
    """Text as it is: brackets in a name are no markup, and nothing in it commands the terminal."""
    from rich.text import Text

    from accelmodel.importers.profile_file import printable

    return Text(printable(text), overflow="fold")


@contextmanager
def _progress() -> Iterator[None]:
    """A bar over the stages on standard error, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total)
            progress.update(bars[stage], completed=done, total=total)

        token = watcher.set(show)
        try:
            yield
        finally:
            watcher.reset(token)
