"""Timeline by hand, its conservation laws on random programs, and its agreement with the replay."""

import json
from itertools import groupby, pairwise

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.program import Program
from accelmodel.replay import replay
from accelmodel.settings import ExecutionSettings
from accelmodel.timeline import Event, chrome_trace, run_programs, timeline
from tests.accelmodel.worlds import bucket, program, requests, settings, target


def rows(events: tuple[Event, ...], lane: str) -> list[tuple[str, int, int]]:
    return [(event.kind, event.start_ps, event.end_ps) for event in events if event.lane == lane]


def test_launches_go_back_to_back_and_kernels_wait_for_launch_kernel_and_barrier() -> None:
    two = program([{"launch": 10, "compute": 30, "barrier": 5, "bytes": 7}, {"launch": 10, "memory": 60}])
    result = run_programs([two], 1.0)
    assert rows(result.events, "host 0") == [("launch", 0, 10), ("launch", 10, 20), ("idle", 20, 105)]
    assert rows(result.events, "slot 0") == [
        ("idle", 0, 10),
        ("kernel", 10, 40),
        ("barrier", 40, 45),
        ("kernel", 45, 105),
    ]
    assert result.span_ps == 105 and result.completion_ps == (105,)


def test_an_op_on_the_host_keeps_the_host_from_issuing() -> None:
    split = program(
        [{"launch": 5, "compute": 50}, {"launch": 7, "host": 100, "barrier": 2}, {"launch": 5, "compute": 10}]
    )
    result = run_programs([split], 1.0)
    assert rows(result.events, "host 0") == [
        ("launch", 0, 5), ("idle", 5, 55), ("launch", 55, 62), ("fallback", 62, 162), ("launch", 162, 167),
        ("idle", 167, 177),
    ]  # fmt: skip
    assert rows(result.events, "slot 0") == [
        ("idle", 0, 5), ("kernel", 5, 55), ("idle", 55, 162), ("barrier", 162, 164), ("idle", 164, 167),
        ("kernel", 167, 177),
    ]  # fmt: skip


def test_two_plans_at_once_share_dram() -> None:
    result = run_programs([program([{"memory": 1000, "bytes": 1000}])] * 2, 1.0)
    assert result.completion_ps == (2000, 2000)
    assert rows(result.events, "slot 1") == [("kernel", 0, 2000)]


def random_program(rng: np.random.Generator) -> Program:
    kernels = []
    for _ in range(int(rng.integers(1, 8))):
        names = ("launch", "compute", "memory", "throttle", "barrier")
        row = {name: int(rng.integers(0, 900)) * int(rng.integers(0, 2)) for name in names}
        row["compute"] += 1
        row["bytes"] = int((row["compute"] + row["memory"] + row["throttle"]) * rng.random())
        kernels.append(row if rng.random() < 0.85 else {"launch": row["launch"], "host": 300, "bytes": 100})
    return program(kernels)


def test_lanes_are_tiled_bytes_are_conserved_and_order_is_kept_in_random_programs() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        programs = [random_program(rng) for _ in range(int(rng.integers(1, 4)))]
        result = run_programs(programs, 1.0)
        for lane, group in groupby(result.events, key=lambda event: event.lane):
            events = list(group)
            assert events[0].start_ps == 0 and events[-1].end_ps == result.span_ps, (seed, lane)
            assert all(before.end_ps == after.start_ps for before, after in pairwise(events)), (seed, lane)
        assert sum(event.dram_bytes for event in result.events) == sum(int(p.dram_bytes.sum()) for p in programs)
        for number, each in enumerate(programs):
            run = [e for e in result.events if e.lane[-1] == str(number) and e.kind in ("kernel", "fallback")]
            assert [e.group for e in sorted(run, key=lambda e: e.start_ps)] == list(each.groups), seed
            issued = {e.group: e.end_ps for e in result.events if e.lane == f"host {number}" and e.kind == "launch"}
            assert all(e.start_ps >= issued.get(e.group, 0) for e in run), seed


def test_timeline_and_replay_complete_at_the_same_instants() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        programs = [random_program(rng) for _ in range(3)]
        result = run_programs(programs, 1.0)
        replayed = replay(
            requests([0, 0, 0], [0, 1, 2]), [bucket(each) for each in programs], target(slots=3), settings(), seed=0
        )
        assert replayed.completion_ps.tolist() == list(result.completion_ps), seed


def test_more_plans_than_slots_are_refused() -> None:
    with pytest.raises(InputError, match="side by side"):
        timeline([], target(), ExecutionSettings())


def test_the_trace_is_plain_json_with_a_track_a_lane_and_an_arrow_from_launch_to_kernel() -> None:
    result = run_programs([program([{"launch": 2_000_000, "compute": 3_000_000, "bytes": 9}])] * 2, 1.0)
    trace = json.loads(json.dumps(chrome_trace(result.events)))
    names = {row["tid"]: row["args"]["name"] for row in trace["traceEvents"] if row["ph"] == "M"}
    assert sorted(names.values()) == ["host 0", "host 1", "slot 0", "slot 1"]
    kernels = [row for row in trace["traceEvents"] if row["ph"] == "X" and row["cat"] == "kernel"]
    assert [(row["ts"], row["dur"]) for row in kernels] == [(2.0, 3.0), (2.0, 3.0)]
    assert all(row["args"]["dram_bytes"] == 9 for row in kernels)
    assert len({row["args"]["correlation"] for row in kernels}) == 2
    arrows = [row["id"] for row in trace["traceEvents"] if row["ph"] == "s"]
    assert arrows == [row["id"] for row in trace["traceEvents"] if row["ph"] == "f"]
    assert not [row for row in trace["traceEvents"] if row.get("cat") == "idle"]
