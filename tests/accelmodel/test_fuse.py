"""Fusion policies: what they form, in which order, and that `optimal` is optimal (against brute force)."""

from collections.abc import Iterator
from itertools import combinations
from math import inf
from random import Random

import pytest

from accelmodel.check import check_grouping
from accelmodel.errors import InputError
from accelmodel.fuse import POLICIES, fuse, require_splits
from accelmodel.fuse_optimal import connected_groups
from accelmodel.fuse_search import Costing, GroupCost, least_walk
from accelmodel.ideals import order_ideals
from accelmodel.legality import atom_graph, refusal
from accelmodel.plan import Group, Grouping, Lowered
from accelmodel.settings import FusionSettings
from tests.accelmodel.dags import lowered, random_lowered

# A transformer-like branch: three siblings read x; q and k meet before v joins.
ATTENTION = {"q": "c x w", "k": "c x w", "v": "c x w", "s": "c q k", "p": "r s", "o": "c p v"}


def names(graph: Lowered, grouping: Grouping) -> list[str]:
    return [" ".join(graph.ops[i].name for i in group.ops) for group in grouping.groups]


def formed(ops: dict[str, str], policy: str, cost: GroupCost = len, **settings: object) -> list[str]:
    graph = lowered(ops, weights=("w",))
    return names(graph, fuse(graph, FusionSettings(policy=policy, **settings), cost))  # type: ignore[arg-type]


def random_cost(seed: int, impossible: float = 0.1) -> GroupCost:
    """A price of its own for each group: a launch each, less than additive on the whole, some impossible."""

    def cost(ops: tuple[int, ...]) -> float:
        random = Random(f"{seed} {ops}")
        if len(ops) > 1 and random.random() < impossible:
            return inf
        return 1.0 + len(ops) * random.uniform(0.0, 1.5)

    return cost


# --- none ---


def test_none_leaves_every_op_and_every_view_alone() -> None:
    assert formed({"a": "c x w", "v": "v a", "b": "e v"}, "none") == ["a", "v", "b"]


# --- pattern ---


def test_pattern_puts_an_element_wise_tail_behind_its_anchor() -> None:
    assert formed({"a": "c x w", "b": "e a", "c": "e b", "d": "c c w"}, "pattern") == ["a b c", "d"]


def test_pattern_closes_a_diamond_of_element_wise_ops() -> None:
    assert formed({"a": "c x w", "b": "e a", "c": "e a b", "d": "r c"}, "pattern") == ["a b c", "d"]


def test_pattern_stops_where_a_value_is_read_beyond_the_tail() -> None:
    # b does not post-dominate a: d reads a as well, and d is an anchor.
    assert formed({"a": "c x w", "b": "e a", "d": "c a w", "e": "e b d"}, "pattern") == ["a", "b d e"]


def test_pattern_puts_element_wise_ops_that_feed_only_the_anchor_before_it() -> None:
    assert formed({"m": "m x", "b": "e m", "c": "e b", "d": "c c w"}, "pattern") == ["m", "b c d"]


def test_pattern_never_puts_two_anchors_together() -> None:
    for seed in range(30):
        graph = random_lowered(Random(seed), 12)
        for group in fuse(graph, FusionSettings(policy="pattern"), len).groups:
            assert sum(graph.ops[i].kind in ("contraction", "reduction") for i in group.ops) <= 1


def test_pattern_takes_an_element_wise_residual_into_the_branch_that_comes_first() -> None:
    ops = {"a": "c x w", "b": "c x w", "c": "c b w", "sum": "e a c", "relu": "e sum", "next": "c relu w"}
    assert formed(ops, "pattern") == ["b", "c", "a sum relu", "next"]


def test_pattern_keeps_a_value_that_leaves_the_graph_at_the_end_of_its_group() -> None:
    graph = lowered({"a": "c x w", "b": "e a"}, outputs=("a",), weights=("w",))
    assert names(graph, fuse(graph, FusionSettings(policy="pattern"), len)) == ["a", "b"]


# --- aggressive ---


def test_aggressive_fuses_a_whole_attention_whatever_it_costs() -> None:
    assert formed(ATTENTION, "aggressive", cost=lambda ops: len(ops) ** 3) == ["q k v s p o"]


def test_aggressive_stops_at_the_limit_of_ops() -> None:
    ops = {"a": "c x w", "b": "e a", "c": "e b", "d": "c c w"}
    assert formed(ops, "aggressive", max_ops=3) == ["a b c", "d"]


def test_aggressive_stops_before_a_fallback_op_and_says_so() -> None:
    graph = lowered({"a": "e x", "f": "f a", "b": "e f", "c": "e b"})
    grouping = fuse(graph, FusionSettings(policy="aggressive"), len)
    assert names(graph, grouping) == ["a", "f", "b c"]
    assert grouping.groups[0].reason == "aggressive: stopped before f: a fallback op runs alone"


def test_aggressive_never_makes_two_groups_wait_for_each_other() -> None:
    # a-c and b-d are legal alone; together each would wait for the other.
    ops = {"a": "c x w", "b": "c y w", "c": "e a b", "d": "e a b"}
    assert formed(ops, "aggressive", max_ops=2) == ["b", "a c", "d"]


def test_aggressive_takes_a_group_that_cannot_run_apart_and_stops_before_what_broke_it() -> None:
    def cost(ops: tuple[int, ...]) -> float:
        return inf if {1, 2} <= set(ops) else 1.0

    assert formed({"a": "e x", "b": "e a", "c": "e b", "d": "e c"}, "aggressive", cost) == ["a b", "c d"]


# --- optimal ---


def set_partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            for partition in set_partitions([i for i in rest if i not in others]):
                yield [[first, *others], *partition]


def executable(graph: Lowered, partition: list[list[int]]) -> list[list[int]] | None:
    """The groups in an order in which each can run; None where there is none."""
    producers = graph.graph.producers()
    done: set[int] = set()
    waiting, order = list(partition), []
    while waiting:
        ready = [
            group
            for group in waiting
            if all(producers.get(t, -1) in done | set(group) | {-1} for i in group for t in graph.graph.ops[i].inputs)
        ]
        if not ready:
            return None
        waiting.remove(ready[0])
        done |= set(ready[0])
        order.append(ready[0])
    return order


def brute_force(graph: Lowered, cost: GroupCost, settings: FusionSettings) -> float:
    """Least cost over every partition of the ops that the independent checker accepts."""
    best = inf
    for partition in set_partitions(list(range(len(graph.ops)))):
        if max(map(len, partition)) > settings.exact_ops:
            continue
        total = sum(cost(tuple(sorted(group))) for group in partition)
        if total >= best or (order := executable(graph, partition)) is None:
            continue
        groups = tuple(Group(f"g{n}", tuple(sorted(ops))) for n, ops in enumerate(order))
        if not check_grouping(graph, Grouping("any", groups, exact=False), settings):
            best = total
    return best


def total_cost(grouping: Grouping, cost: GroupCost) -> float:
    return sum(cost(group.ops) for group in grouping.groups)


@pytest.mark.parametrize("seed", range(40))
def test_optimal_is_the_least_of_all_legal_partitions(seed: int) -> None:
    graph, cost = random_lowered(Random(seed), 6 + seed % 2, width=2 + seed % 3), random_cost(seed)
    settings = FusionSettings(policy="optimal", max_ops=8, exact_ops=8)
    grouping = fuse(graph, settings, cost)
    assert grouping.exact
    assert total_cost(grouping, cost) == pytest.approx(brute_force(graph, cost, settings))


@pytest.mark.parametrize("seed", range(20))
def test_optimal_is_the_least_of_groups_up_to_the_limits(seed: int) -> None:
    graph, cost = random_lowered(Random(seed), 7), random_cost(seed)
    settings = FusionSettings(policy="optimal", max_ops=3, exact_ops=3, max_external_tensors=4, split_before=("n3",))
    assert total_cost(fuse(graph, settings, cost), cost) == pytest.approx(brute_force(graph, cost, settings))


@pytest.mark.parametrize("seed", range(20))
def test_optimal_is_the_least_with_fallback_ops_in_the_way(seed: int) -> None:
    graph, cost = random_lowered(Random(seed), 7, kinds="ceeef"), random_cost(seed)
    settings = FusionSettings(policy="optimal")
    assert total_cost(fuse(graph, settings, cost), cost) == pytest.approx(brute_force(graph, cost, settings))


@pytest.mark.parametrize("seed", range(10))
def test_optimal_is_never_worse_than_another_policy(seed: int) -> None:
    graph, cost = random_lowered(Random(seed), 40, kinds="ceervm", width=4), random_cost(seed)
    for max_ideals in (20000, 30):
        totals = {
            policy: total_cost(
                fuse(graph, FusionSettings(policy=policy, exact_ops=4, max_ideals=max_ideals), cost), cost
            )
            for policy in POLICIES
        }
        assert totals["optimal"] <= min(totals.values()) + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_floors_spare_questions_and_change_no_cost(seed: int) -> None:
    graph, cost = random_lowered(Random(seed), 12, width=3), random_cost(seed)
    settings, asked = FusionSettings(policy="optimal", exact_ops=5), []

    def counting(ops: tuple[int, ...]) -> float:
        asked.append(ops)
        return cost(ops)

    plain = total_cost(fuse(graph, settings, counting), cost)
    without_floors = len(set(asked))
    asked.clear()
    floors = (lambda ops: 1.0, lambda ops: 0.8 * min(cost(ops), 1e6), lambda ops: 0.95 * min(cost(ops), 1e6))
    assert total_cost(fuse(graph, settings, counting, floors), cost) == pytest.approx(plain)
    assert len(set(asked)) < without_floors


@pytest.mark.parametrize("seed", range(15))
def test_a_search_cut_short_says_how_far_it_may_be_from_the_least(seed: int) -> None:
    cost = random_cost(seed, 0.0)
    graph = atom_graph(random_lowered(Random(seed), 14, width=3), FusionSettings())
    ideals, _ = order_ideals(graph, 20000, ())
    groups = [g for g in connected_groups(graph, 5, 20000)[0] if not refusal(graph, g)]
    alone = [1 << atom for atom in range(14)]
    costing = Costing(cost, (lambda ops: 1.0, lambda ops: 0.6 * cost(ops)))
    known = least_walk(graph, ideals, groups, alone, costing, 10_000)
    short = least_walk(graph, ideals, groups, alone, costing, 3)
    least, found = (sum(cost(graph.ops(g)) for g in walk.groups) for walk in (known, short))
    assert known.shortfall == 0.0
    assert least - 1e-9 <= found <= least * (1 + short.shortfall) + 1e-9


def chain_of(length: int) -> Lowered:
    return lowered({"n0": "e x"} | {f"n{i}": f"e n{i - 1}" for i in range(1, length)})


def test_a_plan_from_a_search_cut_short_is_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelmodel.fuse_optimal._COSTS", 5)
    settings = FusionSettings(policy="optimal", max_ops=5, exact_ops=5, max_ideals=61)
    grouping = fuse(chain_of(60), settings, random_cost(3, 0.0), (lambda ops: 1.0,))
    assert not grouping.exact
    assert "above the least" in grouping.notes[0]


def test_where_kinds_of_groups_are_too_many_the_largest_are_left_out_and_the_rest_is_searched() -> None:
    def cost(ops: tuple[int, ...]) -> float:
        return 1.0 if len(ops) in (2, 8) else 10.0 * len(ops)

    settings = FusionSettings(policy="optimal", max_ops=8, max_ideals=300)  # 280 groups of each size, all different
    grouping = fuse(chain_of(280), settings, cost)
    assert not grouping.exact
    assert "groups of 4 ops and more were left out" in grouping.notes[0]
    assert total_cost(grouping, cost) <= 140.0


def test_optimal_takes_a_larger_group_of_another_policy_where_that_is_cheaper() -> None:
    graph = lowered({"a": "c x w", "b": "e a", "c": "e b", "d": "e c"}, weights=("w",))
    grouping = fuse(graph, FusionSettings(policy="optimal", exact_ops=2), lambda ops: 1.0)
    assert names(graph, grouping) == ["a b c d"]
    assert grouping.notes == ("1 groups of more than 2 ops: pattern or aggressive proposes them",)


def test_optimal_joins_siblings_that_only_a_later_op_joins() -> None:
    def cost(ops: tuple[int, ...]) -> float:
        return 1.0 if ops in ((0, 1, 2), (3,)) else 5.0

    assert formed({"a": "e x", "b": "e y", "c": "e a b", "d": "c c w"}, "optimal", cost) == ["a b c", "d"]


def test_too_many_ideals_are_said_and_the_result_is_still_legal() -> None:
    ops = {f"a{i}": f"e x{i}" for i in range(12)} | {"sum": "e " + " ".join(f"a{i}" for i in range(12))}
    graph = lowered(ops)
    grouping = fuse(graph, FusionSettings(policy="optimal", max_ideals=100, exact_ops=4), random_cost(1, 0.0))
    assert not grouping.exact
    assert "max_ideals = 100" in grouping.notes[0]
    assert check_grouping(graph, grouping) == ()


def test_a_wide_stretch_leaves_the_rest_of_the_graph_exact_in_cost() -> None:
    # Twelve branches at the end are too wide; the chain before it is still solved: its best groups are pairs.
    chain = {"c0": "e x"} | {f"c{i}": f"e c{i - 1}" for i in range(1, 8)}
    fan = {f"a{i}": f"c c7 w{i}" for i in range(12)}
    graph = lowered(chain | fan, weights=tuple(f"w{i}" for i in range(12)))

    def cost(ops: tuple[int, ...]) -> float:
        return 1.0 if len(ops) == 2 and max(ops) < 8 and ops[0] % 2 == 0 else 3.0 * len(ops)

    grouping = fuse(graph, FusionSettings(policy="optimal", max_ideals=200, exact_ops=4), cost)
    assert not grouping.exact
    assert names(graph, grouping)[:4] == ["c0 c1", "c2 c3", "c4 c5", "c6 c7"]


def test_an_op_that_cannot_run_at_all_stays_alone_and_the_rest_is_planned() -> None:
    def cost(ops: tuple[int, ...]) -> float:
        return inf if 1 in ops else 1.0

    ops = {"a": "e x", "b": "e a", "c": "e b", "d": "e c"}
    assert formed(ops, "optimal", cost) == ["a", "b", "c d"]


# --- all policies ---


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(15))
def test_every_grouping_passes_the_independent_checker(policy: str, seed: int) -> None:
    graph = random_lowered(Random(seed), 25, kinds="ceeermvvf", width=4)
    settings = FusionSettings(policy=policy, max_ops=6, exact_ops=4, max_external_tensors=6, split_before=("n5", "n9"))
    assert check_grouping(graph, fuse(graph, settings, random_cost(seed)), settings) == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_input_gives_the_same_grouping(policy: str) -> None:
    graph = random_lowered(Random(3), 20)
    settings = FusionSettings(policy=policy)
    assert fuse(graph, settings, random_cost(3)) == fuse(graph, settings, random_cost(3))


def test_groups_are_named_after_their_place_and_their_main_op() -> None:
    graph = lowered({"a": "e x", "b": "c a w", "c": "e b"}, weights=("w",))
    grouping = fuse(graph, FusionSettings(policy="pattern"), len)
    assert [group.name for group in grouping.groups] == ["g0_b"]
    assert grouping.groups[0].reason == "pattern: contraction b with element-wise a, c"


def test_an_optimal_group_says_what_it_saves() -> None:
    graph = lowered({"a": "e x", "b": "e a"})
    grouping = fuse(graph, FusionSettings(policy="optimal"), lambda ops: 100.0)
    assert grouping.groups[0].reason == "optimal: 100 ns together, 200 ns as 2 groups"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_graph_without_ops_has_no_groups(policy: str) -> None:
    assert fuse(lowered({}), FusionSettings(policy=policy), len).groups == ()


def test_an_unknown_policy_is_refused_with_the_four_known() -> None:
    with pytest.raises(InputError, match="none, pattern, aggressive, optimal"):
        fuse(lowered({"a": "e x"}), FusionSettings(policy="greedy"), len)


def test_split_before_may_name_ops_of_any_workload_but_not_of_none() -> None:
    graphs = [lowered({"alpha": "e x"}).graph, lowered({"beta": "e x"}).graph]
    require_splits(FusionSettings(split_before=("alpha", "beta")), graphs)
    with pytest.raises(InputError, match=r"'betta'. Did you mean 'beta'\?"):
        require_splits(FusionSettings(split_before=("alpha", "betta")), graphs)
    alone = fuse(lowered({"alpha": "e x"}), FusionSettings(split_before=("beta",)), len)
    assert [group.ops for group in alone.groups] == [(0,)]
