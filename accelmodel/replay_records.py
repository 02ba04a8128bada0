"""The records that the replay's compiled code works on: one row a slot, kernel, batch, queue and profile bin.

Times are integer picoseconds, bandwidth is bytes per picosecond. Column names are the fields of the dtypes.
"""

from __future__ import annotations

import numpy as np

NEVER = np.iinfo(np.int64).max
IDLE, WAITING, BUSY, ENDING = 0, 1, 2, 3  # what a slot does
NONE = -1


def _record(integers: str, floats: str = "", small: str = "", flags: str = "") -> np.dtype[np.void]:
    """A record of named columns: int64 and float64, then int32 and bool."""
    kinds = ((integers, np.int64), (floats, np.float64), (small, np.int32), (flags, np.bool_))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


# `host`: busy time of an op on the host; `least`: time that its bytes take at DRAM's peak; `fallback`: all its time is.
KERNEL = _record("launch compute memory throttle host barrier least", "dram_bytes", flags="fallback")

# `idle_at_*`: how long, up to that instant, some slot was idle. From `launch` on: drivers of its run.
BATCH = _record(
    "ready idle_at_ready start idle_at_start end launch compute memory contention sync noise throttle fallback",
    small="head next size bucket queue slot program",
)

# `event`: the instant of what it does next. `kernel`, `last`: rows of KERNEL. `issued`: how far the host has issued.
# `alone`, `began`: of the running kernel; `remaining` of it at `updated`, falling by `rate` each picosecond.
# `queued`: requests in its own queue and on it.
SLOT = _record(
    "phase event batch kernel last issued alone began updated busy batches requests queued", "remaining rate demand"
)

# Batches linked by BATCH.next in the order of opening; `ready`: how many of them may run.
QUEUE = _record("", small="first last ready")

RULES = _record("max_wait own_queues shortest admit_limit seed", "bandwidth noise_sigma")

# `arrived`, `batches`: requests and batches so far. `expired`: batches before it are ready. `turn`: of the round robin.
CLOCK = _record(
    "now idle_time idle_slots waiting arrived batches expired turn kernels contended shared_changed bin_width origin",
    "granted",
)

# Integrals over one bin of the profile, and the most requests that waited at once.
BIN = _record("peak", "dram_bytes waiting busy")
