"""The replay engine: `python -m tests.benchmarks.replay [--json]`.

Speed beside SimPy 4 on the same M/M/4, event loop and kernel-level contention, growth with load and cores, memory at
ten million requests (a process of its own), and agreement with queueing theory. Speeds are the best of three runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import simpy
from pyarrow import parquet

from accelmodel.importers.traffic_stream import open_traffic
from accelmodel.replay import Bucket, Replayed, Requests, replay, replay_stream
from tests.accelmodel import queueing
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target
from tests.benchmarks.report import publish

ONE = [bucket(program([{"compute": US}]))]
KERNELS = 50
# Far more than ever wait: it rejects nothing, but which requests start follows from events, not from the recursion.
BY_EVENTS = settings(admit=10**9)
TEN_MILLION = 10_000_000
COLUMNS = (
    "case", "requests", "seconds", "requests_per_second", "kernel_events_per_second", "simpy_ratio", "peak_mib",
    "metric", "expected", "observed", "standard_error",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        by_file = Path(given.memory).is_file()
        json.dump(_day(Path(given.memory)) if by_file else _ten_million(given.memory), sys.stdout)
        return
    speed, theory = [*_speed(), *_growth(), *_memory()], _theory()
    if given.json:
        publish("replay", [{name: row.get(name) for name in COLUMNS} for row in (*speed, *theory)], as_json=True)
        return
    publish("replay: speed", speed, as_json=False)
    publish("replay: theory", theory, as_json=False)


def traffic(count: int, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisson arrivals, ps, `rate` a service, and exponential factors of service time. [N], [N]"""
    random = np.random.default_rng(seed)
    return np.cumsum(random.exponential(US / rate, count)).astype(np.int64), random.exponential(1.0, count)


def _m_m_c(count: int, slots: int, load: float, by_events: bool, seed: int = 1) -> Callable[[], Replayed]:
    arrivals, scale = traffic(count, slots * load, seed)
    chosen, machine, made = BY_EVENTS if by_events else settings(), target(slots=slots), requests(arrivals)
    return lambda: replay(made, ONE, machine, chosen, 0, scale)


def contended(demand: float) -> list[Bucket]:
    """A request of 50 kernels, one unit of service, whose kernels ask for `demand` of DRAM's peak each."""
    row = {"launch": 100, "compute": US // KERNELS, "bytes": int(US / KERNELS * demand)}
    return [bucket(program([row] * KERNELS))]


def _contention(count: int, load: float) -> Callable[[], Replayed]:
    arrivals, _ = traffic(count, 4 * load, seed=2)
    made, buckets, machine = requests(arrivals), contended(0.4), target(slots=4)
    return lambda: replay(made, buckets, machine, settings(), 0)


def _timed(case: str, run: Callable[[], Replayed], runs: int = 3) -> dict[str, Any]:
    run()  # compiles, and touches memory
    seconds, result = [], run()
    for _ in range(runs):
        begun = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begun)
    count, best = len(result.arrival_ps), min(seconds)
    return {
        "case": case, "requests": count, "seconds": best, "requests_per_second": count / best,
        "kernel_events_per_second": result.kernels / best,
    }  # fmt: skip


def _speed() -> list[dict[str, Any]]:
    """SimPy and this engine in turn, so that both meet the machine in the same state."""
    theirs = _simpy(100_000)
    rows = [
        _timed("M/M/4 at 0.8, recursion", _m_m_c(2_000_000, 4, 0.8, by_events=False)),
        _timed("M/M/4 at 0.8, event loop", _m_m_c(500_000, 4, 0.8, by_events=True)),
    ]
    again = _simpy(100_000)
    fastest = max(theirs["requests_per_second"], again["requests_per_second"])
    for row in rows:
        row["simpy_ratio"] = row["requests_per_second"] / fastest
    contention = _timed(f"{KERNELS} kernels a request, 4 cores, DRAM short", _contention(20_000, 0.5))
    return [{**theirs, "requests_per_second": fastest, "simpy_ratio": 1.0}, *rows, contention]


def _simpy(count: int) -> dict[str, Any]:
    """The same M/M/4 in SimPy: a resource of four, one process a request."""
    arrivals, scale = traffic(count, 3.2, seed=1)
    gaps, services = (np.diff(arrivals, prepend=0) / US).tolist(), scale.tolist()
    world = simpy.Environment()
    servers, waits = simpy.Resource(world, capacity=4), []

    def serve(service: float) -> Any:
        arrived = world.now
        with servers.request() as turn:
            yield turn
            waits.append(world.now - arrived)
            yield world.timeout(service)

    def arrive() -> Any:
        for gap, service in zip(gaps, services, strict=True):
            yield world.timeout(gap)
            world.process(serve(service))

    world.process(arrive())
    begun = time.perf_counter()
    world.run()
    seconds = time.perf_counter() - begun
    return {"case": "SimPy 4, M/M/4 at 0.8", "requests": count, "seconds": seconds,
            "requests_per_second": count / seconds}  # fmt: skip


def _growth() -> list[dict[str, Any]]:
    rows = [
        _timed(f"event loop, M/M/{slots} at 0.8", _m_m_c(200_000, slots, 0.8, by_events=True))
        for slots in (1, 16, 64, 256)
    ]
    rows += [
        _timed(f"event loop, M/M/4 at {load:g}", _m_m_c(200_000, 4, load, by_events=True)) for load in (0.5, 0.95, 1.5)
    ]
    return rows + [_timed(f"DRAM short, load {load:g}", _contention(5_000, load)) for load in (0.2, 0.6)]


def _ten_million(how: str) -> dict[str, Any]:
    """Ten million requests in this process, once, with all their results; peak resident memory from its start."""
    run = _m_m_c(TEN_MILLION, 4, 0.8, by_events=how == "events")
    begun = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - begun
    assert int(result.completed.sum()) == TEN_MILLION
    return {
        "case": f"ten million requests, {how}", "requests": TEN_MILLION, "seconds": seconds,
        "requests_per_second": TEN_MILLION / seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def _memory() -> list[dict[str, Any]]:
    """Ten million requests with all their results, and a day that streams from Parquet; each in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.parquet"
        _write_day(path)
        return [_in_own_process(how) for how in ("recursion", "events", str(path))]


def _write_day(path: Path) -> None:
    """Half a million requests an hour for a day, an hour at a time."""
    schema = pa.schema([("arrival_s", pa.float64()), ("size", pa.int64()), ("stream", pa.string())])
    with parquet.ParquetWriter(path, schema) as writer:
        for hour in range(24):
            random = np.random.default_rng(hour)
            times = np.sort(random.uniform(3600.0 * hour, 3600.0 * (hour + 1), 500_000))
            names = np.where(random.random(len(times)) < 0.5, "web", "batch")
            writer.write_table(pa.table([times, random.integers(1, 9, len(times)), names], schema=schema))


def _day(path: Path) -> dict[str, Any]:
    """Read, replay and reduce a day part by part; service is such that one slot is 70 % busy."""
    file = open_traffic(path)
    service = bucket(program([{"compute": int(0.7 * 3600e12 / 500_000)}]))
    asked = (Requests(part.arrival_ps, np.zeros(len(part), np.int32), part.stream) for part in file.parts())
    begun, completed = time.perf_counter(), 0
    for part in replay_stream(asked, [service], target(), settings(), 0, file.streams):
        completed += int(part.completed.sum())
    seconds = time.perf_counter() - begun
    assert completed == file.count
    return {
        "case": "a day from Parquet, part by part", "requests": completed, "seconds": seconds,
        "requests_per_second": completed / seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def _in_own_process(how: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.replay", "--memory", how]
    row: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return row


def _theory() -> list[dict[str, Any]]:
    rows = []
    for slots, load in ((1, 0.7), (4, 0.8), (8, 0.8)):
        result = _m_m_c(1_000_000, slots, load, by_events=False, seed=10 + slots)()
        rows += _against(f"M/M/{slots} at {load:g}", result, queueing.m_m_c_wait(slots, slots * load))
    arrivals, scale = traffic(500_000, 3.2, seed=3)
    sizes = [bucket(*(program([{"compute": US}], batch=size) for size in (1, 2, 4)))]
    bulk = replay(requests(arrivals), sizes, target(), settings(batch=4), 0, scale)
    return rows + _against("M/M(1,4)/1 at 3.2", bulk, queueing.bulk_wait(3.2, 4))


def _against(case: str, result: Replayed, wait: tuple[float, float]) -> list[dict[str, Any]]:
    """P(wait), mean, and the share beyond the 99th percentile of theory."""
    waited = (result.start_ps - result.arrival_ps) / US
    p99 = queueing.quantile(wait, 0.99)
    measured = {
        "P(wait)": (waited > 0, wait[0]), "mean wait, services": (waited, queueing.mean(wait)),
        f"P(wait > {p99:.4f})": (waited > p99, 0.01),
    }  # fmt: skip
    rows = []
    for metric, (values, expected) in measured.items():
        observed, error = queueing.mean_and_error(values.astype(float), warm_up=20_000)
        rows.append({"case": case, "requests": len(waited), "metric": metric, "expected": expected,
                     "observed": observed, "standard_error": error})  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
