"""Tables of a small made-up run: two workloads, both sides, every table of the contract, valid by its schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from schemas.tables import from_rows, validate
from schemas.zones import zone_of

HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "{{ 7 * 7 }}&amp;\"'", "ünï\u202ecode")
PLANS = (("block", "short", 1, 0.4), ("block", "long", 4, 0.2), ("conv", "default", 1, 0.4))
SIDES = ("comparator", "candidate")
KIB = 1024


def kernels() -> pl.DataFrame:
    """Comparator: two groups a plan. Candidate: one wide group that spills, of the same ops."""
    rows = []
    for workload, bucket, batch, _ in PLANS:
        first = HOSTILE[0] if workload == "block" else "Conv_0"
        ops = [first, "Add_1", "Gelu_2", "MatMul_3", "Add_4"]
        key = {"workload": workload, "bucket": bucket, "batch": batch}
        rows.append(_kernel(key, "comparator", 0, "g0", ops[:3], busy_ns=9000.0, spill_bytes=0))
        rows.append(_kernel(key, "comparator", 1, "g1", ops[3:], busy_ns=8000.0, spill_bytes=0))
        rows.append(_kernel(key, "candidate", 0, "g0", ops, busy_ns=14000.0, spill_bytes=768 * KIB))
    return from_rows("kernels", rows)


def _kernel(
    key: dict[str, Any], side: str, position: int, group: str, ops: list[str], busy_ns: float, spill_bytes: int
) -> dict[str, Any]:
    dram = 512 * KIB + spill_bytes
    launch = 4000.0
    return {
        **key, "side": side, "position": position, "group": group, "ops": ", ".join(ops), "op_count": len(ops),
        "reason": f"one anchor {ops[0]}, its epilogue", "policy": "aggressive" if side == "candidate" else "pattern",
        "exact": False, "tile": "m=128, n=256", "loop_order": "m, n", "k_tile": 64, "tiles": 48, "waves": 2,
        "cores": 24, "double_buffer": True, "launches": 1, "flops": 10**8, "padded_flops": 11 * 10**7,
        "dram_read_bytes": dram - 128 * KIB, "dram_write_bytes": 128 * KIB, "dram_bytes": dram,
        "spill_bytes": spill_bytes, "placement_spill_bytes": 0, "halo_bytes": 0, "l2_bytes": 2 * dram,
        "requested_bytes": 4 * dram, "peak_bytes": 90 * KIB + spill_bytes // 8, "capacity_bytes": 128 * KIB,
        "compute_ns": 7000.0, "dram_ns": busy_ns, "l2_ns": 900.0, "fallback_ns": 0.0, "barrier_ns": 300.0,
        "launch_ns": launch, "exposed_launch_ns": 1000.0, "busy_ns": busy_ns, "total_ns": busy_ns + launch + 300.0,
        "unfused_ns": len(ops) * 9000.0, "unfused_bottleneck": "launch",
        "bottleneck": "spill" if spill_bytes else "dram", "bound_dram_bytes": 400 * KIB, "bound_latency_ns": 5000.0,
        "dram_over_bound": dram / (400 * KIB), "latency_over_bound": busy_ns / 5000.0,
        "measured_ns": None,
    }  # fmt: skip


def buffers() -> pl.DataFrame:
    rows = []
    for workload, bucket, batch, _ in PLANS:
        for side in SIDES:
            key = {"side": side, "workload": workload, "bucket": bucket, "batch": batch, "group": "g0"}
            sizes = (("x", "stream", 40, 0, 2), (HOSTILE[1], "operand", 20, 0, 3), ("acc", "accumulator", 30, 1, 3))
            offset = 0
            for name, role, kib, start, end in sizes:
                rows.append({
                    **key, "buffer": name, "tensor": name, "role": role, "size_bytes": kib * KIB, "start_step": start,
                    "end_step": end, "offset_bytes": offset, "spilled": False,
                })  # fmt: skip
                offset += kib * KIB
            if side == "candidate":
                rows.append({
                    **key, "buffer": "mid", "tensor": "mid", "role": "intermediate", "size_bytes": 96 * KIB,
                    "start_step": 1, "end_step": 2, "offset_bytes": None, "spilled": True,
                })  # fmt: skip
    return from_rows("buffers", rows)


def timeline() -> pl.DataFrame:
    rows = []
    for workload, bucket, batch, _ in PLANS:
        for side, count in (("comparator", 2), ("candidate", 1)):
            key = {"side": side, "workload": workload, "bucket": bucket, "batch": batch}
            now = 0
            for position in range(count):
                group = f"g{position}"
                spans = (("host", "launch", 4_000_000), ("core 0", "kernel", 9_000_000), ("DRAM", "store", 2_000_000))
                for lane, kind, length in spans:
                    rows.append({**key, "lane": lane, "name": HOSTILE[0], "kind": kind, "group": group,
                                 "start_ps": now, "end_ps": now + length, "dram_bytes": 64 * KIB})  # fmt: skip
                    now += length
    return from_rows("timeline", rows)


def quality(*, passes: bool) -> pl.DataFrame:
    rows = []
    for side in SIDES:
        for workload, output in (("block", HOSTILE[2]), ("conv", "logits")):
            good = passes or side == "comparator" or workload == "block"
            rows.append({
                "side": side, "workload": workload, "output": output, "shapes": "batch=2, sequence=64",
                "reduced": workload == "block", "executed": True, "reason": "", "samples": 4,
                "max_abs_error": 3.1e-6 if good else 0.2, "max_relative_error": 4.2e-6 if good else 0.9,
                "relative_l2_error": 1.1e-6 if good else 0.4, "cosine": 0.9999999 if good else 0.91,
                "top1_agreement": 1.0 if workload == "conv" else None, "nonfinite": 0, "worst_index": "0, 3, 17",
                "bound": 1e-4, "passed": good, "first_bad_group": None if good else "g0",
                "reference": "ONNX Runtime, float32",
            })  # fmt: skip
    return from_rows("quality", rows)


def metrics() -> pl.DataFrame:
    rows = []
    for side, launches, spill in (("comparator", 2, 0), ("candidate", 1, 768 * KIB)):
        for workload, bucket, batch, weight in PLANS:
            launch, dram, requested = launches * 4000.0, 1024 * KIB + spill, 8192 * KIB
            rows.append({
                "side": side, "workload": workload, "bucket": bucket, "batch": batch, "weight": weight,
                "evidence": "modelled", "launches": launches, "launch_ns": launch, "exposed_launch_ns": launch / 4,
                "reference_launch_ns": 20000.0, "launch_overhead_reduction": 1 - launch / 20000.0,
                "dram_bytes": dram, "requested_bytes": requested, "on_chip_reuse_ratio": 1 - dram / requested,
                "spill_bytes": spill, "working_set_ratio": 1.45 if spill else 0.7, "fallback_op_share": 0.0,
                "total_ns": 18600.0 if spill else 25600.0,
            })  # fmt: skip
    return from_rows("metrics", rows)


def trials() -> pl.DataFrame:
    """Of each side: four rates, the last too high; two batch settings; two fusion policies."""
    rows = []
    for side, slow in (("comparator", 1.0), ("candidate", 1.5)):
        said = [("rate", f"{rate}/s", rate, mark) for rate, mark in ((50, ""), (60, "knee"), (80, "sla"), (200, ""))]
        said += [("batching", f"batch {size}, wait 0 µs", 70, mark) for size, mark in ((1, "own"), (2, ""))]
        said += [("fusion", policy, 70, mark) for policy, mark in (("none", ""), ("pattern", "own"))]
        for experiment, label, rate, mark in said:
            unstable = rate == 200
            p99 = None if unstable else slow * rate * 10.0
            rows.append({
                "side": side, "experiment": experiment, "label": label, "policy": "pattern", "max_batch": 1,
                "max_wait_us": 0.0, "rate_per_s": float(rate), "utilisation": rate / 190, "unstable": unstable,
                "p50_us": p99 and p99 / 3, "p95_us": p99 and p99 / 2, "p99_us": p99,
                "missed_share": 1.0 if unstable else 0.01, "mark": mark + " stable" * (mark == "sla"),
            })  # fmt: skip
    return from_rows("trials", rows)


def sweep() -> pl.DataFrame:
    steps = (
        ("none", 5, 0.12, 0.42),
        ("pattern", 2, 0.7, 0.55),
        ("optimal", 2, 0.82, 0.58),
        ("aggressive", 1, 1.45, 0.97),
    )
    rows = []
    for side in SIDES:
        for workload, bucket, batch, _ in PLANS:
            for policy, launches, working_set, demand in steps:
                working = working_set * (1.0 if side == "candidate" else 0.9)
                rows.append({
                    "side": side, "workload": workload, "bucket": bucket, "batch": batch, "policy": policy,
                    "launches": launches, "launch_ns": launches * 4000.0, "dram_bytes": int(demand * 1024 * KIB),
                    "spill_bytes": 768 * KIB if working > 1 else 0, "peak_bytes": int(working * 128 * KIB),
                    "capacity_bytes": 128 * KIB, "working_set_ratio": working, "dram_demand_ratio": demand,
                    "busy_ns": 14000.0, "total_ns": 14000.0 + launches * 4300.0,
                    "zone": zone_of(working, demand, None),
                })  # fmt: skip
    return from_rows("sweep", rows)


def requests(count: int, *, candidate_tail: float, seed: int = 7) -> pl.DataFrame:
    """`count` requests a side in 4 replications, same arrivals on both. candidate_tail: contention of the slowest
    tenth of the candidate's requests, in multiples of the comparator's."""
    random = np.random.default_rng(seed)
    means_us = {"queueing": 120.0, "launch": 8.0, "compute": 180.0, "memory": 80.0, "contention": 40.0}
    base = {name: random.gamma(2.0, mean / 2, count) for name, mean in means_us.items()}
    burst = random.random(count) < 0.1
    gaps = random.exponential(900.0, count)
    streams = np.where(random.random(count) < 0.7, "tenant-a", "tenant-b")
    workloads = np.where(random.random(count) < 0.6, "block", "conv")
    frames = []
    for side, factor in (("comparator", 1.0), ("candidate", candidate_tail)):
        drivers = {**base, "launch": base["launch"] * (1.0 if side == "comparator" else 0.5)}
        drivers["contention"] = np.where(burst, base["contention"] * 12 * factor, base["contention"])
        frames.append(_requests(side, drivers, gaps, streams, workloads))
    return validate("requests", pl.concat(frames))


def _requests(side: str, drivers: dict[str, Any], gaps: Any, streams: Any, workloads: Any) -> pl.DataFrame:
    count, replications = len(gaps), 4
    in_ps = {name: (values * 1e6).astype(np.int64) for name, values in drivers.items()}
    zeros = np.zeros(count, dtype=np.int64)
    latency = sum(in_ps.values(), zeros)
    arrival = np.cumsum(gaps * 1e6).astype(np.int64)
    rejected = np.arange(count) % 997 == 5
    replication = np.arange(count) * replications // count
    names = ("queueing", "imbalance", "batching", "launch", "compute", "memory", "contention", "sync", "noise",
             "throttle", "fallback")  # fmt: skip
    kept = pl.Series(~rejected)
    frame = pl.DataFrame({
        "side": [side] * count, "replication": replication,
        "request": np.arange(count) - np.searchsorted(replication, replication), "workload": workloads,
        "bucket": np.where(workloads == "block", "short", "default"), "stream": streams, "size": zeros + 64,
        "batch": np.where(rejected, -1, np.arange(count)), "batch_size": np.where(rejected, 0, 1),
        "slot": np.where(rejected, -1, np.arange(count) % 4), "status": np.where(rejected, "rejected", "completed"),
        "covered": [True] * count, "arrival_ps": arrival, "start_ps": arrival + in_ps["queueing"],
        "completion_ps": arrival + latency, "latency_ps": latency,
        **{f"{name}_ps": np.where(rejected, 0, in_ps.get(name, zeros)) for name in names},
        "sla_met": pl.Series([None] * count, dtype=pl.Boolean),
    })  # fmt: skip
    return frame.with_columns(pl.when(kept).then(pl.col(name)) for name in ("start_ps", "completion_ps", "latency_ps"))


def mechanisms() -> pl.DataFrame:
    stages = ("ingress", "lowering", "fusion", "tiling", "placement", "execution", "scheduling", "assembly")
    rows = []
    for experiment in ("prefix", "suffix", "single", "cure"):
        for index, stage in enumerate(stages):
            taken = {"prefix": stages[: index + 1], "suffix": stages[index + 1 :], "single": (stage,),
                     "cure": tuple(name for name in stages if name != stage)}[experiment]  # fmt: skip
            fails = "fusion" in taken
            rows.append({
                "check": "latency-p99", "scope": "overall", "experiment": experiment, "stage": stage,
                "from_candidate": ", ".join(taken), "changed": stage == "fusion", "comparator_value": 1012.0,
                "value": 1391.0 if fails else 1012.0, "change": 0.375 if fails else 0.0,
                "interval_low": 0.331 if fails else 0.0, "interval_high": 0.419 if fails else 0.0,
                "status": "fail" if fails else "pass", "first": experiment == "prefix" and stage == "fusion",
                "proves": experiment == "prefix" and stage in ("lowering", "fusion"),
            })  # fmt: skip
    return from_rows("mechanisms", rows)


def history() -> pl.DataFrame:
    from datetime import UTC, datetime

    rows = [
        {
            "run_id": f"run-{day}", "created": datetime(2025, 3, day, 2, 0, tzinfo=UTC), "candidate_name": "fused-9",
            "verdict": "NO_GO" if day == 3 else "GO", "first_failing_mechanism": "fusion" if day == 3 else None,
            "metric": metric, "scope": "overall", "side": side, "value": value + day,
        }
        for day in (1, 2, 3)
        for side in SIDES
        for metric, value in (("latency_p99_us", 1000.0), ("launch_overhead_reduction", -2.4))
    ]  # fmt: skip
    return from_rows("history", rows)


def checks(verdict: str) -> pl.DataFrame:
    bad = {"NO_GO": "fail", "HOLD": "undecided", "GO": "pass"}[verdict]
    change = {"NO_GO": 0.375, "HOLD": 0.052, "GO": -0.02}[verdict]
    spread = 0.044
    tails = [
        _check(f"latency-{level}", f"latency_{level}_us", unit="us", evidence="replayed", comparator_value=value,
               candidate_value=value * (1 + change), change=change, interval_low=change - spread,
               interval_high=change + spread, margin=0.05, p_harm=0.0004, samples=8, status=bad,
               message=f"{level} {abs(change):.1%} {'worse' if change > 0 else 'better'}: {bad}")
        for level, value in (("p99", 1012.0), ("p95", 655.0))
    ]  # fmt: skip
    launch = _check("launch-overhead", "launch_overhead_reduction", unit="ratio", comparator_value=0.6,
                    candidate_value=0.8, change=-0.5, interval_low=-0.5, interval_high=-0.5, margin=0.05,
                    direction="higher_is_better", status="pass", message="half of the launch time is gone")  # fmt: skip
    rejected = _check("rejected", "rejected_share", unit="share", evidence="replayed", comparator_value=0.001,
                      candidate_value=0.001, limit=0.005, status="pass", message="within the limit",
                      owner_role="runtime_systems_engineer", owner="Ana")  # fmt: skip
    spill = _check("spill", "spill_bytes", scope="block", unit="bytes", severity="warning", comparator_value=0.0,
                   candidate_value=786432.0, limit=1048576.0, status="pass", message="within the limit",
                   owner_role="memory_hierarchy_owner", owner="memory_hierarchy_owner")  # fmt: skip
    quality = _check("quality", "quality_failed_outputs", scope="conv", unit="outputs", comparator_value=0.0,
                     candidate_value=None, limit=0.0, status="missing" if verdict == "HOLD" else "waived",
                     message="no output was run")  # fmt: skip
    return from_rows("checks", [*tails, launch, rejected, spill, quality])


def _check(check: str, metric: str, **given: Any) -> dict[str, Any]:
    defaults = {
        "scope": "overall", "evidence": "modelled", "severity": "blocking", "direction": "lower_is_better",
        "samples": 1, "owner_role": "ml_compiler_engineer", "owner": "Noor <noor@example.org>",
    }  # fmt: skip
    return {**defaults, "check": check, "metric": metric, **given}
