"""How the plans of a workload are named: `bucket/batch`."""

from __future__ import annotations

from dataclasses import replace

from accelmodel.settings import FusionSettings, Settings
from schemas.candidate import Workload

FALLBACK = "fallback"
"""Name of the bucket for requests that no bucket covers: the unfused plan at the shapes of the largest bucket."""


def label_of(bucket: str, batch: int) -> str:
    """Name of one plan of a workload."""
    return f"{bucket}/{batch}"


def bucket_and_batch(label: str) -> tuple[str, int]:
    bucket, _, batch = label.rpartition("/")
    return bucket, int(batch)


def batch_sizes(most: int) -> tuple[int, ...]:
    """Batches that plans are made for: powers of two below `most`, and `most`. A batch runs the least that holds it."""
    return (*(1 << power for power in range(most.bit_length()) if 1 << power < most), most)


def shapes_of(workload: Workload, index: int, batch: int) -> dict[str, int]:
    """Size of every symbolic dim of a bucket's plan: a size dim without one is as large as the largest request."""
    bucket = workload.buckets[index]
    shapes = dict(bucket.shapes)
    if workload.size_dim is not None and bucket.max_size is not None:
        shapes.setdefault(workload.size_dim, bucket.max_size)
    if workload.batch_dim is not None:
        shapes[workload.batch_dim] = batch
    return shapes


def plan_settings(settings: Settings, label: str) -> Settings:
    """The settings that a plan is made with: nothing is fused in the plan of last resort."""
    if bucket_and_batch(label)[0] == FALLBACK:
        return replace(settings, fusion=FusionSettings(policy="none"))
    return settings
