"""What a replay is given: requests, and the programs of each shape bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Scheduled arrivals in order. arrival_ps: int64 [N], sorted, >= 0. bucket: int32 [N], index into the table of
    buckets given to `replay`. stream: int32 [N], the tenant, an index into `streams` where those have names.
    iterations: int32 [N], program runs that each needs under iteration-level batching; None: one each."""

    arrival_ps: npt.NDArray[np.int64]
    bucket: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    iterations: npt.NDArray[np.int32] | None = None
    streams: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.arrival_ps, self.bucket, self.stream, self.iterations)
        shapes = {column.shape for column in columns if column is not None}
        require(len(shapes) == 1 and self.arrival_ps.ndim == 1, "requests", "columns of one length", str(shapes))
        require(self.arrival_ps.size > 0, "requests", "at least one request", "none")
        require(int(self.arrival_ps[0]) >= 0, "requests, arrival_ps", "times >= 0", str(self.arrival_ps[0]))
        later = self.arrival_ps[1:] >= self.arrival_ps[:-1]
        row = int(np.argmin(later)) + 1 if later.size else 0
        require(bool(later.all()), "requests, arrival_ps", "sorted times", f"a step back at request {row}")
        last = int(self.stream.max())
        require(int(self.stream.min()) >= 0, "requests, stream", "an index >= 0", str(self.stream.min()))
        known = not self.streams or last < len(self.streams)
        require(known, "requests, stream", f"an index below {len(self.streams)}", str(last))
        some = self.iterations is None or int(self.iterations.min()) >= 1
        require(some, "requests, iterations", "at least one each", "less")

    @property
    def stream_count(self) -> int:
        return max(len(self.streams), int(self.stream.max()) + 1)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Programs of one shape bucket of one workload, ascending in batch size (1, 2, 4 ...). A batch runs the smallest
    program that holds it, padded. `size`: the largest request that the bucket covers. `fallback`: stands for requests
    that no bucket of the workload covers; its programs are fallback programs."""

    workload: str
    size: int
    programs: tuple[Program, ...]
    fallback: bool = False

    def __post_init__(self) -> None:
        batches = [program.batch for program in self.programs]
        ascending = bool(batches) and batches == sorted(set(batches))
        require(ascending, self.where, "programs ascending in batch size", str(batches))
        alike = {program.fallback for program in self.programs} == {self.fallback}
        require(alike, self.where, f"programs with fallback={self.fallback}", "one that differs")

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"bucket {self.size} of workload {self.workload!r}"


def assign_buckets(
    size: npt.NDArray[np.int64], bucket_sizes: Sequence[int], rule: str, fallback: int
) -> npt.NDArray[np.int32]:
    """Index of each request's bucket: `smallest_fit` the smallest that holds it, `exact` only its own size.

    Requests that none covers get `fallback`. bucket_sizes need not be sorted. [N] -> [N]
    """
    require(rule in ("smallest_fit", "exact"), "bucket_rule", "smallest_fit or exact", repr(rule), "ingress")
    order = np.argsort(np.asarray(bucket_sizes), kind="stable")
    ascending = np.asarray(bucket_sizes)[order]
    place = np.searchsorted(ascending, size, side="left")
    covered = place < len(ascending)
    place = np.minimum(place, len(ascending) - 1)
    if rule == "exact":
        covered &= ascending[place] == size
    return np.where(covered, order[place], fallback).astype(np.int32)


def require(holds: bool, where: str, expected: str, found: str, stage: str = "scheduling") -> None:
    """Refuse input that cannot be replayed."""
    if not holds:
        raise InputError(
            stage=stage, where=where, expected=expected, found=found,
            remedy="Correct the traffic, the bucket table or the settings of this stage.",
        )  # fmt: skip
