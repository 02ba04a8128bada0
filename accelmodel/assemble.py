"""Result assembly: the outputs of padded batches, split back into the outputs of each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.quality import compare

Array = npt.NDArray[np.generic]
Results = dict[int, dict[str, Array]]


@dataclass(frozen=True, slots=True, eq=False)
class BatchResult:
    """Outputs of one batch by name, each [padded batch, ...]. Row i is of request_ids[i]; later rows are padding."""

    request_ids: tuple[int, ...]
    outputs: Mapping[str, Array]


def assemble(batches: Sequence[BatchResult], order: str) -> Results:
    """Outputs of every request, each [1, ...], from batches in the order of their completion.

    order `arrival`: each row goes to the request that it belongs to. `completion`: rows are handed out in the order of
    completion to the requests in the order of arrival (ascending id), which is right only while nothing overtakes.
    """
    if order not in ("arrival", "completion"):
        raise _wrong("order", "arrival or completion", repr(order))
    for batch in batches:
        for name, value in batch.outputs.items():
            rows = value.shape[0] if value.ndim else 0
            if rows < len(batch.request_ids):
                raise _wrong(f"output {name!r}", f"a row for each of {len(batch.request_ids)} requests", f"{rows} rows")
    completed = [request for batch in batches for request in batch.request_ids]
    if len(set(completed)) < len(completed):
        raise _wrong("batches", "each request in one batch", "a request in two")
    receivers = completed if order == "arrival" else sorted(completed)
    rows_of = [(batch, row) for batch in batches for row in range(len(batch.request_ids))]
    return {
        request: {name: value[row : row + 1] for name, value in batch.outputs.items()}
        for request, (batch, row) in zip(receivers, rows_of, strict=True)
    }


def check_assembly(assembled: Results, alone: Results, bounds: Mapping[str, float]) -> tuple[str, ...]:
    """Problems of assembled results against those of every request run by itself; empty where there are none.

    bounds: of the relative L2 error, by output name (see error_bound.error_bounds).
    """
    problems = [f"assembly: request {request} has no result" for request in alone if request not in assembled]
    problems += [
        f"assembly: a result for request {request}, which nobody made" for request in assembled if request not in alone
    ]
    for request in sorted(set(assembled) & set(alone)):
        missing = set(alone[request]) - set(assembled[request])
        problems += [f"assembly: request {request}: output {name!r} is missing" for name in sorted(missing)]
        problems += [
            f"assembly: request {request}: output {row.name!r} differs from its own by {row.relative_l2:.3g} "
            f"(relative L2), the bound is {row.bound:.3g}"
            for row in compare(assembled[request], alone[request], bounds)
            if not row.passed
        ]
    return tuple(problems)


def _wrong(where: str, expected: str, found: str) -> InputError:
    return InputError(
        stage="assembly", where=where, expected=expected, found=found,
        remedy="Correct assembly.order, or hand over each batch with the requests that it holds.",
    )  # fmt: skip
