"""Tables of a run: timeline, numeric quality, requests with their latency drivers, measured kernels."""

from __future__ import annotations

from typing import get_args

import polars as pl

from schemas.candidate import SIDES
from schemas.columns import BYTES, NANOSECONDS, PICOSECONDS, flag, integer, number, rule, table, text
from schemas.decision import Driver
from schemas.tables_plan import PLAN_KEYS

DRIVERS: tuple[str, ...] = get_args(Driver)
DRIVER_COLUMNS = tuple(f"{driver}_ps" for driver in DRIVERS)
REQUEST_STATUSES = ("completed", "rejected", "timed_out")

_DRIVER_MEANINGS = {
    "queueing": "Waiting while every eligible core is busy.",
    "imbalance": "Waiting while an eligible core is idle, or at a barrier for the slowest core.",
    "batching": "Waiting for the batch to fill.",
    "launch": "Exposed launch time.",
    "compute": "Engine time.",
    "memory": "Time beyond compute when alone on the machine.",
    "contention": "Time beyond that because DRAM is shared.",
    "sync": "Fixed cost of barriers.",
    "noise": "What the noise model adds.",
    "throttle": "What the clock schedule adds.",
    "fallback": "All time inside an op or plan of the fallback kind.",
}

TIMELINE = table(
    "timeline",
    "What runs when, on which lane, for one run of a plan alone on the machine.",
    {
        **PLAN_KEYS,
        "lane": text("Where it runs: a core, the host, or the DRAM."),
        "name": text("Name of what runs."),
        "kind": text("What sort of thing runs: kernel, launch, load, store, barrier and so on."),
        "group": text("Name of the group that it belongs to."),
        "start_ps": integer("Start.", PICOSECONDS),
        "end_ps": integer("End.", PICOSECONDS),
        "dram_bytes": integer("Bytes that it moves across the DRAM boundary.", BYTES),
    },
    [rule(["start_ps", "end_ps"], "end_ps >= start_ps", pl.col("end_ps") >= pl.col("start_ps"))],
)

QUALITY = table(
    "quality",
    "Numeric agreement of each output with an independent reference.",
    {
        "side": text("Which of the two releases the row is about.", one_of=SIDES),
        "workload": text("Name of the workload."),
        "output": text("Name of the model's output."),
        "shapes": text("Shapes that were run."),
        "reduced": flag("Whether the shapes are smaller than production's."),
        "executed": flag("Whether the plan was run; false means that nothing is known of this output."),
        "reason": text("Why it was not run, or what limits the result; empty where nothing is to be said."),
        "samples": integer("Inputs that were run.", "samples"),
        "max_abs_error": number("Largest absolute error.", "output's unit", nullable=True),
        "max_relative_error": number("Largest relative error.", "ratio", nullable=True),
        "relative_l2_error": number("Error over reference, both in the L2 norm.", "ratio", nullable=True),
        "cosine": number("Cosine between output and reference.", "ratio", low=-1.000001, high=1.000001, nullable=True),
        "top1_agreement": number(
            "Share of samples with the reference's top-1 class; null for what is no classifier.",
            "share", high=1.0, nullable=True,
        ),
        "nonfinite": integer("Elements that are NaN or infinite where the reference is not.", "elements"),
        "worst_index": text("Index of the worst element; empty where not run."),
        "bound": number("Bound of the relative error from precision and reduction length.", "ratio", nullable=True),
        "passed": flag("Whether the output is within its bound; null where not run.", nullable=True),
        "first_bad_group": text("Group where the error first exceeds its bound; null where none does.", nullable=True),
        "reference": text("What it was compared with; empty where not run."),
    },
    [
        rule(
            ["executed", "passed"],
            "passed exactly where executed",
            pl.col("executed") == pl.col("passed").is_not_null(),
        ),
        rule(
            ["executed", "reason"],
            "a reason where not executed",
            pl.col("executed") | (pl.col("reason").str.len_bytes() > 0),
        ),
    ],
)  # fmt: skip

_DONE = pl.col("status") == "completed"
_FINISH_COLUMNS = ("start_ps", "completion_ps", "latency_ps")
_HAS_FINISH = pl.all_horizontal(*(pl.col(name).is_not_null() for name in _FINISH_COLUMNS))
_HAS_NO_FINISH = pl.all_horizontal(*(pl.col(name).is_null() for name in _FINISH_COLUMNS))

REQUESTS = table(
    "requests",
    "Every request of the replay: its latency is the exact sum of its drivers.",
    {
        "side": text("Which of the two releases the row is about.", one_of=SIDES),
        "replication": integer("Which paired replication of the traffic, from 0.", "index"),
        "request": integer("Number of the request in its replication, in order of arrival.", "index"),
        "workload": text("Name of the workload."),
        "bucket": text("Shape bucket that took it; `fallback` where none covers it."),
        "stream": text("Stream (tenant) that it came from."),
        "size": integer("Size of the request, in the workload's size dim.", "elements"),
        "batch": integer("Number of the batch that it ran in; -1 where it was rejected.", "index", low=-1),
        "batch_size": integer("Requests in that batch; 0 where it was rejected.", "requests"),
        "slot": integer("Set of cores that it ran on; -1 where it was rejected.", "index", low=-1),
        "status": text("What became of it.", one_of=REQUEST_STATUSES),
        "covered": flag("Whether a shape bucket covers it; false means that it paid the fallback plan."),
        "arrival_ps": integer("Scheduled arrival.", PICOSECONDS),
        "start_ps": integer("Start of its batch on a slot; null where it was rejected.", PICOSECONDS, nullable=True),
        "completion_ps": integer("Completion; null where it was rejected.", PICOSECONDS, nullable=True),
        "latency_ps": integer("Completion - scheduled arrival; null where rejected.", PICOSECONDS, nullable=True),
        **{f"{driver}_ps": integer(_DRIVER_MEANINGS[driver], PICOSECONDS) for driver in DRIVERS},
        "sla_met": flag("Whether latency kept the stamped target; null where none is stamped.", nullable=True),
    },
    [
        rule(
            ["status", *_FINISH_COLUMNS],
            "start, completion and latency exactly where completed",
            pl.when(_DONE).then(_HAS_FINISH).otherwise(_HAS_NO_FINISH),
        ),
        rule(
            ["latency_ps", "completion_ps", "arrival_ps"],
            "latency_ps = completion_ps - arrival_ps",
            pl.col("latency_ps") == pl.col("completion_ps") - pl.col("arrival_ps"),
        ),
        rule(
            ["arrival_ps", "start_ps", "completion_ps"],
            "arrival_ps <= start_ps <= completion_ps",
            (pl.col("arrival_ps") <= pl.col("start_ps")) & (pl.col("start_ps") <= pl.col("completion_ps")),
        ),
        rule(
            ["latency_ps", *DRIVER_COLUMNS],
            "drivers that sum to latency_ps (to 0 where rejected)",
            pl.sum_horizontal(*DRIVER_COLUMNS) == pl.col("latency_ps").fill_null(0),
        ),
    ],
)

TRIALS = table(
    "trials",
    "What the same requests would meet at other rates, batches and fusion policies; a part of the replications.",
    {
        "side": text("Which of the two releases the row is about.", one_of=SIDES),
        "experiment": text("What was changed.", one_of=("rate", "batching", "fusion")),
        "label": text("Name of the trial."),
        "policy": text("Fusion policy of the plans."),
        "max_batch": integer("Most requests in one batch.", "requests", low=1),
        "max_wait_us": number("Longest wait for a batch to fill.", "microseconds"),
        "rate_per_s": number("Mean arrivals a second.", "requests per second"),
        "utilisation": number("Time that slots would have to work / time in which the requests arrived.", "ratio"),
        "unstable": flag("Whether a queue grows without end; then there are no percentiles."),
        "p50_us": number("Median latency; null where unstable or too few completed.", "microseconds", nullable=True),
        "p95_us": number("95th percentile of latency, likewise.", "microseconds", nullable=True),
        "p99_us": number("99th percentile of latency, likewise.", "microseconds", nullable=True),
        "missed_share": number("Requests that miss the SLA; null where none is set.", "share", high=1.0, nullable=True),
        "mark": text("own: as the side runs; sla, stable: highest such rate found; knee: most rate per p99."),
    },
    [rule(["unstable", "p99_us"], "no percentile where unstable", ~pl.col("unstable") | pl.col("p99_us").is_null())],
)  # fmt: skip

PROFILE_KERNELS = table(
    "profile_kernels",
    "Measured kernels of a side's profile.",
    {
        "side": text("Which of the two releases the row is about.", one_of=SIDES),
        "workload": text("Name of the workload."),
        "device": text("Device that it ran on."),
        "stream": text("Stream or queue of the device."),
        "name": text("Kernel name as the profile says it."),
        "start_ns": integer("Start, on the profile's clock; null where each kernel was run by itself.", NANOSECONDS,
                            low=None, nullable=True),
        "duration_ns": integer("Duration.", NANOSECONDS),
        "launch_start_ns": integer("Start of its launch, same clock; null where none joins.", NANOSECONDS,
                                   low=None, nullable=True),
        "launch_duration_ns": integer("Duration of its launch call.", NANOSECONDS, nullable=True),
        "launch_delay_ns": integer("Start - end of launch; negative ones are real.", NANOSECONDS,
                                   low=None, nullable=True),
        "queue_depth": integer("Kernels of its stream launched before and not yet started at its launch.", "kernels",
                               nullable=True),
        "grid": text("Grid size, `x,y,z`.", nullable=True),
        "block": text("Block size, `x,y,z`.", nullable=True),
        "registers": integer("Registers per thread.", "registers", nullable=True),
        "shared_bytes": integer("Shared memory of a block.", BYTES, nullable=True),
        "local_bytes": integer("Local memory per thread (spilled registers).", BYTES, nullable=True),
        "dram_bytes": integer("Bytes across the DRAM boundary by hardware counters.", BYTES, nullable=True),
        "correlation": integer("Number that joins it with its launch.", "index", low=None, nullable=True),
        "iteration": integer("Iteration that it belongs to.", "index", nullable=True),
    },
)  # fmt: skip
