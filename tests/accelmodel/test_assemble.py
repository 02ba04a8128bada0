"""Assembly gives each request its own rows; a swap, a drop and the order of completion are found out."""

from collections.abc import Mapping

import numpy as np
import pytest

from accelmodel.assemble import BatchResult, assemble, check_assembly
from accelmodel.errors import InputError

RNG = np.random.default_rng(0)
INPUTS = {request: RNG.standard_normal((1, 3)) for request in range(5)}
WEIGHT = RNG.standard_normal((3, 4))
ALONE = {request: {"y": value @ WEIGHT} for request, value in INPUTS.items()}
BOUNDS = {"y": 1e-12}


def batch(*requests: int, padded: int) -> BatchResult:
    """Run the requests together, padded with zeros."""
    rows = np.concatenate([*(INPUTS[request] for request in requests), np.zeros((padded - len(requests), 3))])
    return BatchResult(requests, {"y": rows @ WEIGHT})


BATCHES = (batch(2, 3, 4, padded=4), batch(0, 1, padded=2))  # the second arrived first and was overtaken


def problems(assembled: Mapping[int, dict[str, np.ndarray]]) -> tuple[str, ...]:
    return check_assembly(dict(assembled), ALONE, BOUNDS)


def test_padded_batches_split_back_into_what_each_request_gets_alone() -> None:
    assembled = assemble(BATCHES, "arrival")
    assert problems(assembled) == ()
    assert {request: result["y"].shape for request, result in assembled.items()} == dict.fromkeys(range(5), (1, 4))


def test_handing_out_by_completion_gives_overtaken_requests_the_wrong_rows() -> None:
    assert len(problems(assemble(BATCHES, "completion"))) == 5
    assert problems(assemble(BATCHES[::-1], "completion")) == ()  # nothing overtook: no harm


def test_a_swap_of_two_requests_is_found() -> None:
    swapped = assemble(BATCHES, "arrival")
    swapped[1], swapped[3] = swapped[3], swapped[1]
    found = problems(swapped)
    assert len(found) == 2
    assert "request 1" in found[0] and "request 3" in found[1] and "the bound is 1e-12" in found[0]


def test_a_dropped_request_and_a_dropped_output_are_found() -> None:
    dropped = assemble(BATCHES, "arrival")
    del dropped[4]
    assert problems(dropped) == ("assembly: request 4 has no result",)
    assert problems({**assemble(BATCHES, "arrival"), 2: {}}) == ("assembly: request 2: output 'y' is missing",)


def test_a_result_for_nobody_is_found() -> None:
    assembled = assemble(BATCHES, "arrival")
    assert problems({**assembled, 9: assembled[0]}) == ("assembly: a result for request 9, which nobody made",)


@pytest.mark.parametrize(
    ("batches", "order", "says"),
    [
        (BATCHES, "size", "arrival or completion"),
        ((BatchResult((0, 1), {"y": np.zeros((1, 4))}),), "arrival", "a row for each of 2 requests, found 1 rows"),
        ((BATCHES[0], BATCHES[0]), "arrival", "each request in one batch"),
    ],
)
def test_bad_input_is_refused(batches: tuple[BatchResult, ...], order: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        assemble(batches, order)
