"""A compiled plan through the runtime: program, timeline and replay tell one story, and the checker agrees."""

from pathlib import Path

import numpy as np
import pytest

from accelmodel.check import check_timeline
from accelmodel.compile import compile_plan
from accelmodel.generate import write_model
from accelmodel.importers.onnx import read_graph
from accelmodel.plan import Plan
from accelmodel.program import PS_PER_NS, as_fallback, program
from accelmodel.replay import Bucket, replay
from accelmodel.settings import (
    ExecutionSettings,
    FusionSettings,
    LoweringSettings,
    SchedulingSettings,
    Settings,
    TilingSettings,
)
from accelmodel.timeline import exposed_launch_ns, timeline
from tests.accelmodel.numeric_worlds import A100
from tests.accelmodel.worlds import requests

SETTINGS = Settings(
    lowering=LoweringSettings(precision="float16", no_kernel=("Gelu",)),
    fusion=FusionSettings(policy="pattern"),
    tiling=TilingSettings(cores=27),
    execution=ExecutionSettings(clock_fraction=0.8, noise_cv=0.1),
    scheduling=SchedulingSettings(max_batch=2, max_wait_us=20.0),
)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Plan]:
    """A transformer block at batch 1 and 2, whose Gelu falls back to the host."""
    path: Path = write_model("transformer_block", tmp_path_factory.mktemp("models") / "t.onnx", hidden=128)
    graphs = (read_graph(path, {"batch": batch, "sequence": 64}) for batch in (1, 2))
    single, double = (compile_plan(graph, A100, SETTINGS, "block") for graph in graphs)
    return single, double


def test_a_program_holds_the_plans_times_and_bytes(plans: tuple[Plan, Plan]) -> None:
    for plan in plans:
        made = program(plan, SETTINGS.execution)
        assert int(made.dram_bytes.sum()) == plan.dram_bytes
        assert int(made.launch_ps.sum()) == pytest.approx(plan.launch_ns * PS_PER_NS, abs=len(plan.kernels))
        busy_ns = sum(kernel.cost.busy_ns for kernel in plan.kernels)
        assert int(made.busy_ps.sum()) == pytest.approx(busy_ns * PS_PER_NS, abs=len(plan.kernels))
        assert made.fallback_ps.sum() > 0
        assert made.compute_ps.min() >= 0 and made.memory_ps.min() >= 0


def test_timelines_alone_and_side_by_side_pass_the_independent_checker(plans: tuple[Plan, Plan]) -> None:
    single, double = plans
    for together in ((single,), (double,), (single, single, double, single)):
        made = timeline(together, A100, SETTINGS.execution)
        assert check_timeline(made.events, made.span_ps, together, A100) == ()
    alone = timeline((single,), A100, SETTINGS.execution).completion_ps[0]
    crowded = timeline((single,) * 4, A100, SETTINGS.execution).completion_ps
    assert min(crowded) >= alone


def test_replay_of_one_request_ends_when_the_timeline_does(plans: tuple[Plan, Plan]) -> None:
    quiet = Settings(scheduling=SchedulingSettings())
    made = program(plans[0], SETTINGS.execution)
    result = replay(requests([1000]), [Bucket("block", 64, (made,))], A100, quiet, seed=0)
    assert result.latency_ps[0] == timeline(plans[:1], A100, SETTINGS.execution).completion_ps[0]
    exposed_ps = sum(exposed_launch_ns(plans[0], SETTINGS.execution)) * PS_PER_NS
    host_part = sum(
        ns for kernel, ns in zip(plans[0].kernels, exposed_launch_ns(plans[0], SETTINGS.execution), strict=True)
        if kernel.cost.fallback_ns
    )  # fmt: skip
    assert result.driver("launch")[0] == pytest.approx(exposed_ps - host_part * PS_PER_NS, abs=10)


def test_traffic_over_batches_fallback_and_noise_adds_up(plans: tuple[Plan, Plan]) -> None:
    programs = tuple(program(plan, SETTINGS.execution, batch) for plan, batch in zip(plans, (1, 2), strict=True))
    rare = Bucket("block", 1, (as_fallback(programs[0]),), fallback=True)
    rng = np.random.default_rng(0)
    gap_ps = int(programs[0].busy_ps.sum() // 3)
    arrivals = requests(np.cumsum(rng.exponential(gap_ps, 800)).astype(np.int64), rng.choice(2, 800, p=(0.9, 0.1)))
    result = replay(arrivals, [Bucket("block", 64, programs), rare], A100, SETTINGS, seed=2)
    assert np.array_equal(sum(result.drivers().values()), result.latency_ps)
    assert set(result.batch_size.tolist()) == {1, 2}
    assert result.slot_requests.sum() == 800 and len(result.slot_requests) == 4
    uncovered = arrivals.bucket == 1
    assert not result.driver("compute")[uncovered].any() and result.driver("fallback")[uncovered].all()
    assert result.driver("contention").any() and result.driver("throttle").any() and result.driver("noise").any()
