"""One good row of each table, for tests to spoil."""

from __future__ import annotations

from datetime import UTC, datetime

KEYS: dict[str, object] = {"side": "candidate", "workload": "block", "bucket": "short", "batch": 1}

OP: dict[str, object] = {
    **KEYS, "position": 0, "op": "gemm", "op_type": "MatMul", "kind": "contraction", "engine": "matrix",
    "precision": "float16", "accumulator": "float32", "dims": "m 8 parallel, n 8 parallel, k 8 reduction",
    "group": "g0", "flops": 1024, "read_bytes": 256, "write_bytes": 128, "requested_bytes": 384,
    "fallback_reason": None, "notes": "",
}  # fmt: skip

KERNEL: dict[str, object] = {
    **KEYS, "position": 0, "group": "g0", "ops": "gemm, relu", "op_count": 2, "reason": "epilogue",
    "policy": "pattern", "exact": False, "tile": "m 8, n 8", "loop_order": "m, n", "k_tile": 8, "tiles": 1, "waves": 1,
    "cores": 1, "double_buffer": True, "launches": 1, "flops": 1024, "padded_flops": 4096, "dram_read_bytes": 256,
    "dram_write_bytes": 128, "dram_bytes": 384, "spill_bytes": 64, "placement_spill_bytes": 32, "halo_bytes": 0,
    "l2_bytes": 0, "requested_bytes": 640, "peak_bytes": 512, "capacity_bytes": 1024, "compute_ns": 2.0,
    "dram_ns": 1.5, "l2_ns": 0.0, "fallback_ns": 0.0, "barrier_ns": 1.0, "launch_ns": 3.0, "exposed_launch_ns": 3.0,
    "busy_ns": 2.5, "total_ns": 6.5, "unfused_ns": 11.0, "unfused_bottleneck": "launch", "bottleneck": "compute",
    "bound_dram_bytes": 384, "bound_latency_ns": 2.0, "dram_over_bound": 1.0, "latency_over_bound": 1.25,
    "measured_ns": None,
}  # fmt: skip

BUFFER: dict[str, object] = {
    **KEYS, "group": "g0", "buffer": "a", "tensor": "x", "role": "stream", "size_bytes": 64, "offset_bytes": 0,
    "start_step": 0, "end_step": 1, "spilled": False,
}  # fmt: skip

EVENT: dict[str, object] = {
    **KEYS, "lane": "core 0", "name": "g0", "kind": "kernel", "group": "g0", "start_ps": 0, "end_ps": 10,
    "dram_bytes": 384,
}  # fmt: skip

QUALITY: dict[str, object] = {
    "side": "candidate", "workload": "block", "output": "y", "shapes": "batch=1", "reduced": False, "executed": True,
    "reason": "", "samples": 4, "max_abs_error": 1e-3, "max_relative_error": 1e-3, "relative_l2_error": 1e-4,
    "cosine": 1.0, "top1_agreement": None, "nonfinite": 0, "worst_index": "0, 3", "bound": 1e-2, "passed": True,
    "first_bad_group": None, "reference": "onnxruntime",
}  # fmt: skip

REQUEST: dict[str, object] = {
    "side": "candidate", "replication": 0, "request": 0, "workload": "block", "bucket": "short", "stream": "default",
    "size": 1, "batch": 0, "batch_size": 1, "slot": 0, "status": "completed", "covered": True, "arrival_ps": 5,
    "start_ps": 7, "completion_ps": 30, "latency_ps": 25, "queueing_ps": 2, "imbalance_ps": 0, "batching_ps": 0,
    "launch_ps": 3, "compute_ps": 10, "memory_ps": 4, "contention_ps": 5, "sync_ps": 1, "noise_ps": 0,
    "throttle_ps": 0, "fallback_ps": 0, "sla_met": None,
}  # fmt: skip

PROFILE_KERNEL: dict[str, object] = {
    "side": "candidate", "workload": "block", "device": "0", "stream": "7", "name": "gemm_kernel", "start_ns": 100,
    "duration_ns": 20, "launch_start_ns": 90, "launch_duration_ns": 5, "launch_delay_ns": -1, "queue_depth": 0,
    "grid": "1,1,1", "block": "32,1,1", "registers": 32, "shared_bytes": 0, "local_bytes": 0, "dram_bytes": None,
    "correlation": 1, "iteration": 0,
}  # fmt: skip

METRIC: dict[str, object] = {
    **KEYS, "weight": 1.0, "evidence": "modelled", "launches": 2, "launch_ns": 6.0, "exposed_launch_ns": 4.0,
    "reference_launch_ns": 9.0, "launch_overhead_reduction": 0.333, "dram_bytes": 384, "requested_bytes": 640,
    "on_chip_reuse_ratio": 0.4, "spill_bytes": 0, "working_set_ratio": 0.5, "fallback_op_share": 0.0, "total_ns": 20.0,
}  # fmt: skip

SWEEP: dict[str, object] = {
    **KEYS, "policy": "none", "launches": 3, "launch_ns": 9.0, "dram_bytes": 640, "spill_bytes": 0, "peak_bytes": 512,
    "capacity_bytes": 1024, "working_set_ratio": 0.5, "dram_demand_ratio": 0.3, "busy_ns": 5.0, "total_ns": 15.0,
    "zone": "unstable tail latency",
}  # fmt: skip

CHECK: dict[str, object] = {
    "check": "latency-p99", "metric": "latency_p99_us", "scope": "overall", "unit": "us", "evidence": "replayed",
    "severity": "blocking", "direction": "lower_is_better", "comparator_value": 10.0, "candidate_value": 12.0,
    "change": 0.2, "interval_low": 0.15, "interval_high": 0.25, "margin": 0.05, "limit": None, "p_harm": 0.001,
    "samples": 8, "status": "fail", "owner_role": "ml_compiler_engineer", "owner": "compilers", "message": "worse",
}  # fmt: skip

MECHANISM: dict[str, object] = {
    "check": "latency-p99", "scope": "overall", "experiment": "prefix", "stage": "fusion",
    "from_candidate": "ingress, lowering, fusion", "changed": True, "comparator_value": 10.0, "value": 12.0,
    "change": 0.2, "interval_low": 0.15, "interval_high": 0.25, "status": "fail", "first": True, "proves": True,
}  # fmt: skip

HISTORY: dict[str, object] = {
    "run_id": "r1", "created": datetime(2026, 1, 2, tzinfo=UTC), "candidate_name": "c", "verdict": "NO_GO",
    "first_failing_mechanism": "fusion", "metric": "latency_p99_us", "scope": "overall", "side": "candidate",
    "value": 12.0,
}  # fmt: skip

TRIAL: dict[str, object] = {
    "side": "candidate", "experiment": "batching", "label": "batch 2, wait 0 µs", "policy": "pattern", "max_batch": 2,
    "max_wait_us": 0.0, "rate_per_s": 70.0, "utilisation": 0.4, "unstable": False, "p50_us": 10.0, "p95_us": 20.0,
    "p99_us": 30.0, "missed_share": 0.01, "mark": "own",
}  # fmt: skip

GOOD: dict[str, dict[str, object]] = {
    "ops": OP, "kernels": KERNEL, "buffers": BUFFER, "timeline": EVENT, "quality": QUALITY, "requests": REQUEST,
    "profile_kernels": PROFILE_KERNEL, "metrics": METRIC, "sweep": SWEEP, "checks": CHECK, "mechanisms": MECHANISM,
    "trials": TRIAL, "history": HISTORY,
}  # fmt: skip
