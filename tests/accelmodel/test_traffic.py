"""Traffic made from seeds: its rate, its bursts and its sizes are those asked for; resampling keeps what it must."""

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.traffic import (
    PS_PER_S,
    LognormalSizes,
    Traffic,
    TrafficSpec,
    generate_traffic,
    resample_blocks,
    scale_rate,
    stretch,
    take,
    thin,
)


def squared_variation(traffic: Traffic) -> float:
    """Squared coefficient of variation of the gaps: 1 for Poisson, 0 for steady, above 1 for bursts."""
    gaps = np.diff(traffic.arrival_ps)
    return float(gaps.var() / gaps.mean() ** 2)


def recorded(*seconds: float) -> Traffic:
    arrival = np.array([round(s * PS_PER_S) for s in seconds], dtype=np.int64)
    return Traffic(arrival, np.arange(1, len(arrival) + 1), np.zeros(len(arrival), dtype=np.int32))


@pytest.mark.parametrize("kind", ["poisson", "bursty", "steady"])
def test_the_mean_rate_is_the_one_asked_for(kind: str) -> None:
    traffic = generate_traffic(TrafficSpec(kind, rate_per_s=1000, duration_s=60), seed=1)
    assert len(traffic) == pytest.approx(60_000, rel=0.05)
    assert int(traffic.arrival_ps[-1]) <= 60 * PS_PER_S


def test_gaps_are_even_memoryless_or_bursty_by_kind() -> None:
    kinds = {k: generate_traffic(TrafficSpec(k, 1000, 60), seed=2) for k in ("steady", "poisson", "bursty")}
    assert squared_variation(kinds["steady"]) == pytest.approx(0, abs=1e-9)
    assert squared_variation(kinds["poisson"]) == pytest.approx(1, abs=0.05)
    assert squared_variation(kinds["bursty"]) > 1.3


def test_a_burst_runs_at_its_factor_of_the_mean_and_the_calm_makes_up_for_it() -> None:
    spec = TrafficSpec("bursty", 1000, 500, burst_factor=10, burst_share=0.1, burst_length_s=1.0)
    counts = np.bincount(generate_traffic(spec, seed=3).arrival_ps // (PS_PER_S // 10), minlength=5000)
    assert np.median(counts) == 0  # burst_factor x burst_share = 1: the calm is silent
    assert np.median(counts[counts > 500]) == pytest.approx(1000, rel=0.1)  # 10 x 1000 a second in a tenth of one


def test_the_same_seed_gives_the_same_traffic_and_another_seed_another() -> None:
    spec = TrafficSpec("bursty", 100, 10, sizes={1: 1.0, 8: 1.0}, streams=("a", "b"))
    one, same, other = (generate_traffic(spec, seed) for seed in (4, 4, 5))
    assert np.array_equal(one.arrival_ps, same.arrival_ps) and np.array_equal(one.size, same.size)
    assert not np.array_equal(one.arrival_ps, other.arrival_ps)


def test_a_change_of_sizes_leaves_the_arrivals_as_they_were() -> None:
    small = generate_traffic(TrafficSpec("poisson", 100, 10, sizes={1: 1.0}), seed=6)
    large = generate_traffic(TrafficSpec("poisson", 100, 10, sizes={64: 1.0, 128: 3.0}), seed=6)
    assert np.array_equal(small.arrival_ps, large.arrival_ps)


def test_sizes_come_in_the_shares_of_their_weights() -> None:
    size = generate_traffic(TrafficSpec("poisson", 10_000, 10, sizes={64: 1.0, 128: 3.0}), seed=7).size
    assert set(size.tolist()) == {64, 128}
    assert np.mean(size == 128) == pytest.approx(0.75, abs=0.02)


def test_lognormal_sizes_have_their_median_and_keep_their_bounds() -> None:
    sizes = LognormalSizes(median=512, sigma=1.0, low=16, high=4096)
    size = generate_traffic(TrafficSpec("poisson", 10_000, 10, sizes=sizes), seed=8).size
    assert np.median(size) == pytest.approx(512, rel=0.03)
    assert (int(size.min()), int(size.max())) == (16, 4096)


def test_streams_are_equally_likely_and_keep_their_names() -> None:
    traffic = generate_traffic(TrafficSpec("poisson", 1000, 10, streams=("web", "batch")), seed=9)
    assert traffic.stream_names == ("web", "batch")
    assert traffic.stream.mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "fractal"}, "kind"),
        ({"rate_per_s": 0.0}, "rate_per_s"),
        ({"rate_per_s": float("nan")}, "rate_per_s"),
        ({"duration_s": float("inf")}, "duration_s"),
        ({"duration_s": 1e7}, "duration_s"),
        ({"rate_per_s": 1e9}, "requests"),
        ({"kind": "bursty", "burst_share": 0.5}, "burst_factor x burst_share"),
        ({"kind": "bursty", "burst_share": 0.0}, "burst_share"),
        ({"kind": "bursty", "burst_factor": 0.5}, "burst_factor"),
        ({"kind": "bursty", "burst_length_s": 1e-9}, "burst_length_s"),
        ({"sizes": {}}, "sizes"),
        ({"sizes": {0: 1.0}}, "sizes"),
        ({"sizes": {4: -1.0}}, "weight of 4"),
        ({"sizes": LognormalSizes(0.0, 1.0)}, "median"),
        ({"streams": ()}, "streams"),
        ({"rate_per_s": 1e-9}, "at least one request"),
    ],
)
def test_a_specification_that_means_nothing_is_refused_by_field(changes: dict[str, object], said: str) -> None:
    values: dict[str, object] = {"kind": "poisson", "rate_per_s": 10.0, "duration_s": 10.0, **changes}
    with pytest.raises(InputError, match=said):
        generate_traffic(TrafficSpec(**values), seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arrival", "size", "stream"),
    [([], [], []), ([1, 0], [1, 1], [0, 0]), ([-1, 0], [1, 1], [0, 0]), ([0, 1], [0, 1], [0, 0]), ([0, 1], [1], [0, 0]),
     ([0, 1], [1, 1], [0, 1])],
)  # fmt: skip
def test_traffic_that_breaks_its_own_rules_cannot_be_made(
    arrival: list[int], size: list[int], stream: list[int]
) -> None:
    with pytest.raises(InputError):
        Traffic(np.array(arrival, np.int64), np.array(size, np.int64), np.array(stream, np.int32))


# --- resampling, scaling, cutting ---


def test_the_rate_counts_one_mean_gap_after_the_last_request() -> None:
    traffic = recorded(0, 1, 2, 3)
    assert traffic.span_ps == 4 * PS_PER_S
    assert traffic.rate_per_s == pytest.approx(1.0)


def test_a_resample_keeps_rate_duration_and_order() -> None:
    traffic = generate_traffic(TrafficSpec("bursty", 200, 100), seed=10)
    again = resample_blocks(traffic, block_s=2.0, seed=11, duration_s=400)
    assert len(again) == pytest.approx(80_000, rel=0.1)
    assert int(again.arrival_ps[-1]) < 400 * PS_PER_S
    assert bool(np.all(np.diff(again.arrival_ps) >= 0))


def test_a_resample_keeps_the_burstiness_that_single_draws_would_lose() -> None:
    spec = TrafficSpec("bursty", 200, 200, burst_factor=8, burst_length_s=0.5)
    traffic = generate_traffic(spec, seed=12)
    again = resample_blocks(traffic, block_s=10, seed=13, duration_s=200)
    assert squared_variation(again) == pytest.approx(squared_variation(traffic), rel=0.3)


def test_within_a_block_requests_keep_their_gaps_sizes_and_streams() -> None:
    traffic = recorded(0.0, 0.25, 0.5, 0.75)
    again = resample_blocks(traffic, block_s=1.0, seed=14, duration_s=1.0)
    assert sorted(again.size.tolist()) == [1, 2, 3, 4]
    assert np.diff(again.arrival_ps).tolist() == [PS_PER_S // 4] * 3
    following = {1: 2, 2: 3, 3: 4, 4: 1}  # blocks wrap around the end of the recording
    assert all(following[a] == b for a, b in zip(again.size.tolist()[:-1], again.size.tolist()[1:], strict=True))


def test_every_request_is_drawn_equally_often() -> None:
    traffic = recorded(0.0, 0.1, 0.2, 5.0)
    again = resample_blocks(traffic, block_s=0.5, seed=15, duration_s=20_000)
    shares = np.bincount(again.size, minlength=5)[1:] / len(again)
    assert shares == pytest.approx([0.25] * 4, abs=0.02)


def test_the_same_seed_resamples_alike() -> None:
    traffic = generate_traffic(TrafficSpec("poisson", 100, 10), seed=16)
    one, same, other = (resample_blocks(traffic, 1.0, seed, 10) for seed in (1, 1, 2))
    assert np.array_equal(one.arrival_ps, same.arrival_ps)
    assert not np.array_equal(one.arrival_ps, other.arrival_ps)


def test_a_higher_rate_compresses_time_and_keeps_requests() -> None:
    traffic = scale_rate(recorded(0, 2, 4), 2.0)
    assert traffic.arrival_ps.tolist() == [0, PS_PER_S, 2 * PS_PER_S]
    assert traffic.size.tolist() == [1, 2, 3]


def test_taking_keeps_the_first_requests_and_at_most_all() -> None:
    assert take(recorded(0, 1, 2), 2).size.tolist() == [1, 2]
    assert len(take(recorded(0, 1, 2), 9)) == 3


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), 1e-12])
def test_a_rate_factor_that_means_nothing_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="rate factor"):
        scale_rate(recorded(0, 1), factor)


def test_blocks_and_cuts_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="block_s"):
        resample_blocks(recorded(0, 1), 0.0, 0, 1.0)
    with pytest.raises(InputError, match="duration_s"):
        resample_blocks(recorded(0, 1), 1.0, 0, 0.0)
    with pytest.raises(InputError, match="requests to take"):
        take(recorded(0, 1), 0)


def test_an_mmpp_keeps_its_mean_rate_and_its_phases() -> None:
    spec = TrafficSpec("mmpp", 1000.0, 200.0, phase_rates=(1.0, 5.0, 0.0), phase_lengths_s=(0.4, 0.1, 0.2))
    traffic = generate_traffic(spec, seed=3)
    assert traffic.rate_per_s == pytest.approx(1000.0, rel=0.1)
    counts = np.bincount((traffic.arrival_ps // (PS_PER_S // 50)).astype(int))  # in 20 ms
    assert (counts == 0).mean() > 0.15  # the phase of rate 0 takes two sevenths of the time
    assert np.quantile(counts, 0.97) > 60  # 20 a bin on average, 78 in the phase of rate 5


def test_a_diurnal_rate_rises_and_falls_over_its_period() -> None:
    spec = TrafficSpec("diurnal", 500.0, 100.0, swing=0.8, period_s=100.0)
    quarters = np.bincount((generate_traffic(spec, seed=4).arrival_ps // (25 * PS_PER_S)).astype(int))
    expected = 12_500 * (1 + 0.8 * 2 / np.pi * np.array([1, 1, -1, -1]))
    assert np.abs(quarters - expected).max() < 5 * np.sqrt(expected.max())


def test_sizes_and_iterations_may_be_lognormal() -> None:
    spec = TrafficSpec(
        "poisson", 1000.0, 20.0, size_median=100.0, size_sigma=0.5, size_high=400, iterations={2: 1.0, 6: 1.0}
    )
    traffic = generate_traffic(spec, seed=5)
    assert np.median(traffic.size) == pytest.approx(100, rel=0.03)
    assert traffic.size.max() <= 400
    assert traffic.iterations is not None and traffic.iterations.mean() == pytest.approx(4.0, rel=0.03)


def test_thinning_keeps_time_and_stretching_keeps_requests() -> None:
    spec = TrafficSpec("poisson", 1000.0, 20.0, iterations={3: 1.0})
    whole = generate_traffic(spec, seed=6)
    thinned, stretched = thin(whole, 0.25, seed=1), stretch(whole, 4.0)
    assert len(thinned) == pytest.approx(len(whole) / 4, rel=0.05)
    assert set(thinned.arrival_ps.tolist()) <= set(whole.arrival_ps.tolist())
    assert thinned.iterations is not None and len(thinned.iterations) == len(thinned)
    assert np.array_equal(thin(whole, 0.25, seed=1).arrival_ps, thinned.arrival_ps)
    assert np.array_equal(stretched.arrival_ps, whole.arrival_ps * 4)
    assert stretched.rate_per_s == pytest.approx(whole.rate_per_s / 4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "mmpp"}, "phase_rates, phase_lengths_s"),
        ({"kind": "mmpp", "phase_rates": (1.0,), "phase_lengths_s": (0.0,)}, "phase_lengths_s"),
        ({"kind": "mmpp", "phase_rates": (0.0,), "phase_lengths_s": (1.0,)}, "phase_rates"),
        ({"kind": "diurnal", "swing": 1.5}, "swing"),
        ({"iterations": {0: 1.0}}, "sizes of at least 1"),
    ],
)
def test_a_new_law_that_means_nothing_is_refused(changes: dict[str, object], said: str) -> None:
    values: dict[str, object] = {"kind": "poisson", "rate_per_s": 10.0, "duration_s": 10.0, **changes}
    with pytest.raises(InputError, match=said):
        TrafficSpec(**values)  # type: ignore[arg-type]


def test_more_blocks_than_memory_holds_are_refused() -> None:
    with pytest.raises(InputError, match=r"block_s: expected at most 10,000,000 blocks in 10 s, found 10,000,000,000"):
        resample_blocks(recorded(0, 1, 10), 1e-9, 0, 10.0)
    same = Traffic(np.zeros(5, np.int64), np.ones(5, np.int64), np.zeros(5, np.int32))  # all at one instant
    assert len(resample_blocks(same, 30.0, 0, same.span_ps / PS_PER_S)) == 5
