"""What a record of traffic cannot show or had to be mended: found, and said with what was done."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelmodel.importers.traffic_formats import Source
from accelmodel.traffic import PS_PER_S

Said = tuple[str, ...]
_QUANTISED = 0.5  # of the requests share their instant with another: queueing inside an instant is an artefact
_GAP_SHARE = 0.05  # of the whole record without a request
_GAP_MEANS = 100  # and as many mean gaps: a sparse record has long gaps by nature


def in_order(elapsed_ps: NDArray[np.int64], source: Source, sort: bool) -> tuple[NDArray[np.int64] | None, Said]:
    """The order of arrival where the rows are in another, else None. InputError for such rows without `sort`.
    [N] -> [N]"""
    back = np.flatnonzero(np.diff(elapsed_ps) < 0)
    if not len(back):
        return None, ()
    if not sort:
        found = f"a step back in time, the first of {len(back):,}"
        remedy = "Sort the rows by arrival, or set traffic.file.sort: true to have it done and said."
        raise source.wrong(int(back[0]) + 1, "rows in order of arrival", found, remedy)
    said = (
        f"time goes back at {len(back):,} of {len(elapsed_ps):,} rows, first at {source.row} "
        f"{source.first + int(back[0]) + 1}; "
        "the rows are sorted by arrival, rows of one instant as they stood"
    )  # fmt: skip
    return np.argsort(elapsed_ps, kind="stable"), (said,)


def counted_as_one(count: int, what: str) -> Said:
    """Requests whose size or number of iterations is 0."""
    return (f"{count:,} requests of {what} count as 1",) if count else ()


def timing_findings(arrival_ps: NDArray[np.int64]) -> Said:
    """How many arrivals share an instant, and long stretches without any. [N]"""
    return (*_quantised(arrival_ps), *_gaps(arrival_ps))


def _quantised(arrival_ps: NDArray[np.int64]) -> Said:
    instants = 1 + int(np.count_nonzero(np.diff(arrival_ps)))
    if instants >= len(arrival_ps) * (1 - _QUANTISED):
        return ()
    return (
        f"arrival times are quantised: {len(arrival_ps):,} requests at {instants:,} instants; queueing within an "
        "instant is an artefact of the recording; the times are kept as they are",
    )  # fmt: skip


def _gaps(arrival_ps: NDArray[np.int64]) -> Said:
    span = int(arrival_ps[-1] - arrival_ps[0])
    gaps = np.diff(arrival_ps)
    long = np.flatnonzero(gaps > max(_GAP_SHARE * span, _GAP_MEANS * span / len(arrival_ps)))
    if not len(long):
        return ()
    longest = int(long[np.argmax(gaps[long])])
    return (
        f"{len(long):,} gaps without a request, the longest {gaps[longest] / PS_PER_S:,.1f} s from "
        f"{arrival_ps[longest] / PS_PER_S:,.1f} s on, {gaps[long].sum() / span:.0%} of the record together; kept as "
        "they are",
    )  # fmt: skip
