"""What may be one group."""

import pytest

from accelmodel.legality import AtomGraph, atom_graph, external_tensors, refusal
from accelmodel.settings import FusionSettings
from tests.accelmodel.dags import lowered


def atoms_of(ops: dict[str, str], **settings: object) -> AtomGraph:
    return atom_graph(lowered(ops, weights=("w",)), FusionSettings(**settings))  # type: ignore[arg-type]


def members(graph: AtomGraph, names: str) -> int:
    """Set of the atoms that hold these ops."""
    wanted = set(names.split())
    return sum(1 << atom for atom, ops in enumerate(graph.atoms) if wanted & {graph.lowered.ops[op].name for op in ops})


def test_a_view_rides_with_its_producer() -> None:
    graph = atoms_of({"a": "c x w", "v": "v a", "b": "e v"})
    assert graph.atoms == ((0, 1), (2,))


def test_a_chain_of_views_of_an_input_rides_with_its_only_consumer() -> None:
    graph = atoms_of({"v": "v x", "u": "v v", "b": "e u"})
    assert graph.atoms == ((0, 1, 2),)
    assert graph.main == (2,)


def test_a_view_that_two_ops_read_and_none_makes_stands_alone() -> None:
    graph = atoms_of({"v": "v x", "a": "e v", "b": "e v"})
    assert graph.atoms == ((0,), (1,), (2,))
    assert not graph.launching & 1


def test_a_view_never_rides_with_a_fallback_op() -> None:
    graph = atoms_of({"f": "f x", "v": "v f", "g": "f v"})
    assert graph.atoms == ((0,), (1,), (2,))


def test_a_view_that_must_start_a_group_rides_with_its_consumer() -> None:
    graph = atoms_of({"a": "e x", "v": "v a", "b": "e v"}, split_before=("v",))
    assert graph.atoms == ((0,), (1, 2))
    assert "split_before" in refusal(graph, members(graph, "a b"))


def test_a_path_that_leaves_and_comes_back_is_refused() -> None:
    graph = atoms_of({"a": "e x", "b": "e a", "c": "e a b"})
    assert "comes back" in refusal(graph, members(graph, "a c"))
    assert refusal(graph, members(graph, "a b c")) == ""


def test_siblings_that_read_the_same_activation_may_be_one_group() -> None:
    graph = atoms_of({"a": "e x", "b": "c a w", "c": "c a w"})
    assert refusal(graph, members(graph, "b c")) == ""


def test_a_shared_weight_makes_no_siblings() -> None:
    graph = atoms_of({"a": "e x w", "b": "e y w"})
    assert "no data flows" in refusal(graph, members(graph, "a b"))


def test_ops_that_only_a_later_op_joins_may_be_one_group_with_it() -> None:
    graph = atoms_of({"a": "e x", "b": "e y", "c": "e a b"})
    assert "no data flows" in refusal(graph, members(graph, "a b"))
    assert refusal(graph, members(graph, "a b c")) == ""


def test_a_fallback_op_runs_alone() -> None:
    graph = atoms_of({"a": "e x", "f": "f a"})
    assert "fallback" in refusal(graph, members(graph, "a f"))
    assert refusal(graph, members(graph, "f")) == ""


def test_views_do_not_count_towards_max_ops() -> None:
    graph = atoms_of({"a": "e x", "v": "v a", "b": "e v", "c": "e b"}, max_ops=2)
    assert refusal(graph, members(graph, "a b")) == ""
    assert "max_ops = 2" in refusal(graph, members(graph, "a b c"))


def test_split_before_parts_an_op_from_what_feeds_it_and_from_nothing_else() -> None:
    graph = atoms_of({"a": "e x", "b": "e a", "c": "e a"}, split_before=("b",))
    assert "split_before" in refusal(graph, members(graph, "a b"))
    assert refusal(graph, members(graph, "b c")) == ""


@pytest.mark.parametrize(("names", "count"), [("a", 3), ("a b", 3), ("a b c", 5), ("b c", 4)])
def test_external_tensors_are_what_the_group_reads_and_leaves(names: str, count: int) -> None:
    # a reads x, w and leaves a; {a, b} hides a; c brings y and is an output; d, outside, reads b.
    graph = atoms_of({"a": "c x w", "b": "e a", "c": "e b y", "d": "r b"})
    assert external_tensors(graph, members(graph, names)) == count


def test_one_op_with_too_many_tensors_is_still_a_group() -> None:
    graph = atoms_of({"a": "m x y z", "b": "e a"}, max_external_tensors=2)
    assert refusal(graph, members(graph, "a")) == ""
    assert "max_external_tensors" in refusal(graph, members(graph, "a b"))
