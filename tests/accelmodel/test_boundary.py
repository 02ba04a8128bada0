"""What a group reads, makes and hands on."""

from accelmodel.boundary import boundary, storage_of
from tests.accelmodel import tiny


def test_weights_are_external_and_intermediates_are_not() -> None:
    lowered = tiny.gemm_bias_relu(4, 8, 2)
    edge = boundary(lowered, tiny.everything(lowered))
    assert edge.external == ("a", "b", "v")
    assert dict(edge.made) == {"c": 0, "d": 1, "e": 2}
    assert edge.outputs == ("e",)
    assert edge.root == 2


def test_a_result_that_a_later_group_reads_is_an_output() -> None:
    lowered = tiny.diamond(4, 4)
    edge = boundary(lowered, tiny.Group("ab", (0, 1)))
    assert edge.outputs == ("p", "q")  # c still reads p, d reads q
    assert edge.ops[edge.root].name == "b"  # the last one among equals


def test_the_root_writes_the_output_with_most_elements() -> None:
    ops = [
        tiny.op("a", "elementwise", {"m": 8, "n": 6}, {"x": "m n"}, {"p": "m n"}),
        tiny.op("b", "reduction", {"m": 8, "n": 6}, {"p": "m n"}, {"z": "m"}, reduced="n"),
    ]
    lowered = tiny.world(ops, {"x": (8, 6), "p": (8, 6), "z": (8,)}, outputs=["p", "z"])
    edge = boundary(lowered, tiny.everything(lowered))
    assert edge.outputs == ("p", "z")
    assert edge.root == 0


def test_views_alias_their_input_through_any_chain() -> None:
    ops = [
        tiny.op("v", "view", {"i": 8}, {"x": ""}, {"y": "i"}),
        tiny.op("w", "view", {"i": 2, "j": 4}, {"y": ""}, {"z": "i j"}),
        tiny.op("e", "elementwise", {"i": 2, "j": 4}, {"z": "i j"}, {"o": "i j"}),
    ]
    lowered = tiny.world(ops, {"x": (4, 2), "y": (8,), "z": (2, 4), "o": (2, 4)})
    assert storage_of(lowered, "z") == "x"
    edge = boundary(lowered, tiny.everything(lowered))
    assert edge.external == ("x",)
    assert edge.readers == {"x": (2,)}


def test_a_result_that_leaves_under_another_name_is_an_output() -> None:
    ops = [
        tiny.op("e", "elementwise", {"i": 8}, {"x": "i"}, {"y": "i"}),
        tiny.op("v", "view", {"i": 2, "j": 4}, {"y": ""}, {"z": "i j"}),
    ]
    lowered = tiny.world(ops, {"x": (8,), "y": (8,), "z": (2, 4)})
    assert lowered.graph.outputs == ("z",)
    assert boundary(lowered, tiny.alone(0)).outputs == ("y",)


def test_a_group_of_views_has_no_root() -> None:
    lowered = tiny.world([tiny.op("v", "view", {"i": 8}, {"x": ""}, {"y": "i"})], {"x": (4, 2), "y": (8,)})
    assert boundary(lowered, tiny.alone(0)).root == -1
