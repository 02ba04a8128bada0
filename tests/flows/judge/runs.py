"""A run's lock, for tests that need one."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas.decision import ArtifactDigest, InputDigest, Run
from tests.flows.judge.test_lock import STABLE


def run_document() -> Run:
    return Run(
        run_id="r1", candidate_name="new", created=datetime(2026, 3, 1, tzinfo=UTC), versions={"tilegate": "0.1.0"},
        code_digest="c" * 64, target="a100-40gb", target_digest="d" * 64, traffic="generated", seeds=(1, 2),
        comparator=STABLE, candidate=STABLE, declared_changes=(),
        inputs=(InputDigest(role="candidate", path="c.yaml", sha256="a" * 64, bytes=10),),
        artifacts=(ArtifactDigest(name="checks", path="checks.parquet", sha256="b" * 64, bytes=20, rows=2),),
        command="tilegate run c.yaml",
    )  # fmt: skip
