"""Settings held against the traffic: what one side would leave out is refused, not compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.fit import require_same_iterations
from schemas.candidate import Candidate
from schemas.documents import parse
from schemas.errors import DocumentError
from tests.flows.world import document


def _candidate(comparator: str, candidate: str) -> Candidate:
    values: dict[str, Any] = document("block.onnx")
    for side, batching in (("comparator", comparator), ("candidate", candidate)):
        values[side]["settings"] = {"scheduling": {"batching": batching}}
    return parse(Candidate, values, "c.yaml")


def test_a_side_that_would_skip_the_iterations_of_the_other_is_refused() -> None:
    with pytest.raises(
        DocumentError, match=r"candidate\.settings\.scheduling\.batching: expected batching `iteration`"
    ):
        require_same_iterations(_candidate("iteration", "bucket"), 5, str(Path("c.yaml")), {})


def test_iterations_that_no_side_runs_are_said() -> None:
    (said,) = require_same_iterations(_candidate("bucket", "padded"), 5, "c.yaml", {})
    assert "up to 5 iterations" in said
    assert require_same_iterations(_candidate("iteration", "iteration"), 5, "c.yaml", {}) == ()
    assert require_same_iterations(_candidate("iteration", "bucket"), 1, "c.yaml", {}) == ()
