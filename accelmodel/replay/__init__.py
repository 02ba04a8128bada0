"""Replay: production traffic through admission, queue, batching, core placement and kernels to each completion.

The runtime model. The target's cores are split into slots of `cores` cores each. A batch runs the kernels of its
program in order on one slot; the host issues its launches back to back (one host thread a slot), and a kernel starts
when it is issued and the kernel before it, with its barrier, has ended. Kernels that run at the same moment share
DRAM bandwidth max-min. Latency counts from the scheduled arrival.
"""

from accelmodel.replay.policies import CORE_POLICIES, POLICIES, Policy
from accelmodel.replay.requests import Bucket, Requests, assign_buckets
from accelmodel.replay.result import DRIVERS, Profile, Replayed
from accelmodel.replay.run import replay, replay_stream

__all__ = [
    "CORE_POLICIES", "DRIVERS", "POLICIES", "Bucket", "Policy", "Profile", "Replayed", "Requests", "assign_buckets",
    "replay", "replay_stream",
]  # fmt: skip
