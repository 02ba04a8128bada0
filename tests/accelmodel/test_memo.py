"""Structural keys of groups, and a memo that changes nothing but when work is done."""

from dataclasses import replace

from accelmodel.memo import Memo
from accelmodel.plan import Lowered
from tests.accelmodel import tiny


def key(lowered: Lowered, *ops: int, memo: Memo | None = None) -> object:
    return (memo or Memo()).structure(lowered).key(ops)


def test_repeated_layers_have_one_key() -> None:
    memo, layers = Memo(), tiny.chain(6, 8, 8)
    assert key(layers, 1, 2, memo=memo) == key(layers, 3, 4, memo=memo)


def test_a_group_whose_results_are_read_elsewhere_has_another_key() -> None:
    memo, graph = Memo(), tiny.diamond(8, 8)  # a feeds b and c, which d joins
    sizes = {"m": 8, "n": 8}
    shared = tiny.world(
        [
            tiny.op("a", "elementwise", sizes, {"x": "m n"}, {"p": "m n"}),
            tiny.op("b", "elementwise", sizes, {"p": "m n"}, {"q": "m n"}),
        ],
        dict.fromkeys("xpq", (8, 8)),
    )
    assert key(graph, 0, 1, memo=memo) != key(shared, 0, 1, memo=memo)  # there c reads p as well


def test_one_operand_read_twice_is_another_structure_than_two_operands() -> None:
    memo, sizes = Memo(), {"m": 8}
    shapes = dict.fromkeys("xyz", (8,))
    one = tiny.world([tiny.op("a", "elementwise", sizes, {"x": "m"}, {"z": "m"})], shapes)
    other = tiny.world([tiny.op("a", "elementwise", sizes, {"x": "m", "y": "m"}, {"z": "m"})], shapes)
    assert key(one, 0, memo=memo) != key(other, 0, memo=memo)


def test_the_key_holds_shapes_precisions_and_element_sizes() -> None:
    memo, plain = Memo(), tiny.gemm(16, 16, 16)
    narrow = replace(plain, element_bytes=dict.fromkeys(plain.element_bytes, 0.5))
    half = tiny.gemm(16, 16, 16, dtype="float16")
    large = tiny.gemm(16, 16, 32)
    assert len({key(graph, 0, memo=memo) for graph in (plain, narrow, half, large)}) == 4


def test_the_key_holds_which_results_are_views_of_which() -> None:
    def reads_through_view(view: bool) -> Lowered:
        kind = "view" if view else "movement"
        ops = [
            tiny.op("a", "elementwise", {"m": 8}, {"x": "m"}, {"y": "m"}),
            tiny.op("v", kind, {"m": 8}, {"y": "m"}, {"z": "m"}),
        ]
        return tiny.world(ops, dict.fromkeys("xyz", (8,)))

    memo = Memo()
    assert key(reads_through_view(True), 0, 1, memo=memo) != key(reads_through_view(False), 0, 1, memo=memo)


def test_equal_lowerings_share_a_structure() -> None:
    memo = Memo()
    assert memo.structure(tiny.gemm(16, 16, 16)) is memo.structure(tiny.gemm(16, 16, 16))
    assert memo.structure(tiny.gemm(16, 16, 32)) is not memo.structure(tiny.gemm(16, 16, 16))


def test_a_result_is_worked_out_once() -> None:
    memo, calls = Memo(), []
    for _ in range(3):
        assert memo.once("key", lambda: calls.append(1) or len(calls)) == 1
    assert len(calls) == 1


def test_a_full_memo_starts_afresh() -> None:
    memo = Memo(most=2)
    for number in range(5):
        assert memo.once(number, lambda number=number: number) == number
    assert len(memo.results) <= 2
