"""Commands that reproduce the run and check its files."""

from __future__ import annotations

from reports.blocks import Block, Code, Missing, Note, Section
from reports.evidence import Evidence


def section(evidence: Evidence) -> Section:
    run = evidence.run
    command: Block = Code((run.command,)) if run.command else Missing("command: run.json holds none")
    blocks: tuple[Block, ...] = (
        command,
        Note(
            "The same inputs, seeds and code give the same tables, so the same digests. To check the files of this run:"
        ),
        Code((f"tilegate verify {run.run_id}",)),
    )
    lead = "Run in the folder of the candidate file, with the versions that the evidence lock names."
    return Section("reproduce", "Reproduce it", lead, blocks)
