"""The independent reference: ONNX Runtime runs the model's own file on the CPU. Outputs are compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from onnx import ModelProto, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NotImplemented

from accelmodel.errors import InputError
from accelmodel.importers.onnx_file import load_model
from accelmodel.quality import OutputError, compare, first_bad_group

__all__ = ["NoReferenceError", "OutputError", "compare", "first_bad_group", "run_reference"]

Array = npt.NDArray[np.generic]
_REFUSED = (Fail, InvalidArgument, InvalidGraph)
# Element types that ONNX Runtime cannot exchange with NumPy.
_NOT_EXCHANGED = frozenset(f"tensor({name})" for name in (
    "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "int4", "uint4", "float4e2m1",
))  # fmt: skip


class NoReferenceError(InputError):
    """The model may be valid, but ONNX Runtime cannot run it on the CPU: there is nothing to compare with."""


def run_reference(
    model_path: Path,
    inputs: Mapping[str, Array],
    extra_outputs: Iterable[str] = (),
    weights: Mapping[str, Array] | None = None,
    threads: int = 2,
) -> dict[str, Array]:
    """Outputs of the model by name, run by ONNX Runtime on the CPU with graph optimisation off.

    extra_outputs: names of tensors inside the model to return too; those that the file does not hold (its exporter or
    our importer made them up) are left out. weights: values put in the place of the model's own, by tensor name.
    NoReferenceError where ONNX Runtime lacks a kernel for an op or a type; InputError where it refuses the model.
    """
    model = load_model(model_path)
    made = {name for node in model.graph.node for name in node.output if name}
    returned = {value.name for value in model.graph.output}
    added = [name for name in dict.fromkeys(extra_outputs) if name in made - returned]
    for name in added:
        model.graph.output.add().name = name
    _replace_weights(model, weights or {})
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    folder = str(model_path.resolve().parent)
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        _check_exchanged(model_path, session)
        names = [value.name for value in session.get_outputs()]
        values = session.run(names, dict(inputs))
    except NotImplemented as error:
        raise _no_reference(model_path, str(error).splitlines()[0]) from error
    except _REFUSED as error:
        raise InputError(
            stage="execution",
            where=f"reference run of {model_path}",
            expected="a model and inputs that ONNX Runtime runs",
            found=str(error).splitlines()[0],
            remedy="Check the model with onnx.checker, and the shapes and types of the inputs.",
        ) from error
    return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


def _check_exchanged(model_path: Path, session: ort.InferenceSession) -> None:
    for value in (*session.get_inputs(), *session.get_outputs()):
        if value.type in _NOT_EXCHANGED:
            raise _no_reference(model_path, f"{value.name!r}, a {value.type}, which it cannot exchange with NumPy")


def _no_reference(model_path: Path, found: str) -> NoReferenceError:
    return NoReferenceError(
        stage="execution", where=f"reference run of {model_path}",
        expected="ops and types that ONNX Runtime has on the CPU", found=found,
        remedy="Compare numerics with another reference, or check a float32 export of the model.",
    )  # fmt: skip


def _replace_weights(model: ModelProto, weights: Mapping[str, Array]) -> None:
    """Make the named tensors initialisers with the given values, whatever made them before."""
    graph = model.graph
    if not weights:
        return
    kept = [node for node in graph.node if not set(node.output) & set(weights)]
    others = [tensor for tensor in graph.initializer if tensor.name not in weights]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(others)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
