"""Generated models: valid, seeded, symbolic where they say so, and right when ONNX Runtime runs them."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from accelmodel.errors import InputError
from accelmodel.generate import write_model


def run(path: Path, value: NDArray[np.float32]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"input": value})
    assert isinstance(result, np.ndarray)
    return result


def sample(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def test_a_transformer_block_keeps_its_shape_at_any_batch_and_sequence(tmp_path: Path) -> None:
    path = write_model("transformer_block", tmp_path / "model.onnx", hidden=16, heads=2, feed_forward=32)
    assert run(path, sample(2, 3, 16)).shape == (2, 3, 16)
    assert run(path, sample(1, 7, 16)).shape == (1, 7, 16)


def test_a_convolution_block_keeps_its_shape_at_any_batch(tmp_path: Path) -> None:
    path = write_model("convolution_block", tmp_path / "model.onnx", channels=8, size=6, blocks=3)
    assert run(path, sample(3, 8, 6, 6)).shape == (3, 8, 6, 6)


def test_a_strided_convolution_block_halves_its_map_rounding_up(tmp_path: Path) -> None:
    path = write_model("convolution_block", tmp_path / "model.onnx", channels=8, size=7, stride=2)
    assert run(path, sample(1, 8, 7, 7)).shape == (1, 8, 4, 4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gelu_written_out_gives_the_results_of_the_op(tmp_path: Path, norm: str) -> None:
    value = sample(1, 5, 16)
    results = {
        gelu: run(
            write_model("transformer_block", tmp_path / gelu, seed=3, hidden=16, heads=4, norm=norm, gelu=gelu), value
        )
        for gelu in ("op", "erf", "tanh")
    }
    np.testing.assert_allclose(results["erf"], results["op"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results["tanh"], results["op"], rtol=1e-2, atol=1e-2)


def test_activations_stay_finite_and_of_the_order_of_one_through_four_layers(tmp_path: Path) -> None:
    path = write_model(
        "transformer_block", tmp_path / "m.onnx", hidden=32, heads=4, feed_forward=64, layers=4, norm="post"
    )
    result = run(path, sample(1, 8, 32))
    assert 0.5 < float(result.std()) < 2.0


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first = write_model("convolution_block", tmp_path / "a", seed=5, channels=8).read_bytes()
    again = write_model("convolution_block", tmp_path / "b", seed=5, channels=8).read_bytes()
    other = write_model("convolution_block", tmp_path / "c", seed=6, channels=8).read_bytes()
    assert first == again
    assert first != other


def test_dims_that_vary_are_symbolic_and_named(tmp_path: Path) -> None:
    model = onnx.load(write_model("transformer_block", tmp_path / "m.onnx", hidden=16, heads=2))
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", "sequence", 16]


def test_attention_is_written_op_by_op_with_separate_projections(tmp_path: Path) -> None:
    model = onnx.load(write_model("transformer_block", tmp_path / "m.onnx", hidden=16, heads=2))
    types = [node.op_type for node in model.graph.node]
    assert types.count("MatMul") == 8  # q, k, v, scores, context, projection, expand, contract
    assert types.count("LayerNormalization") == 2
    assert types.count("Softmax") == 1


@pytest.mark.parametrize(
    ("kind", "sizes", "said"),
    [
        ("diffusion_block", {}, "transformer_block"),
        ("transformer_block", {"width": 8}, "width"),
        ("transformer_block", {"hidden": 10, "heads": 4}, "heads"),
        ("transformer_block", {"hidden": 0}, "hidden"),
        ("transformer_block", {"hidden": "wide"}, "hidden"),
        ("transformer_block", {"norm": "both"}, "norm"),
        ("transformer_block", {"gelu": "fast"}, "gelu"),
        ("convolution_block", {"channels": 6}, "channels"),
    ],
)
def test_a_wrong_size_is_named(tmp_path: Path, kind: str, sizes: dict[str, int | str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        write_model(kind, tmp_path / "m.onnx", **sizes)  # type: ignore[arg-type]
    assert not (tmp_path / "m.onnx").exists()
