"""Small ONNX models with their plans, for numeric execution: one op or a few, cut into uneven tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

from accelmodel.compile import compile_plan
from accelmodel.error_bound import error_bounds
from accelmodel.execute import Execution, execute
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph, read_weights
from accelmodel.importers.onnxruntime import run_reference
from accelmodel.importers.target import read_target, target_path
from accelmodel.plan import Plan, TilePlan
from accelmodel.quality import OutputError, compare
from accelmodel.samples import seeded_inputs
from accelmodel.settings import FusionSettings, LoweringSettings, Settings

TARGET = read_target(yaml.safe_load(target_path("edge-npu").read_text(encoding="utf-8")))
A100 = read_target(yaml.safe_load(target_path("a100-40gb").read_text(encoding="utf-8")))
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


@dataclass(frozen=True, slots=True)
class World:
    """A model on disk with what was read from it."""

    path: Path
    graph: Graph
    weights: Mapping[str, np.ndarray]
    inputs: Mapping[str, np.ndarray]

    def plan(self, policy: str = "none", precision: str = "model", accumulator: str = "float32") -> Plan:
        lowering = LoweringSettings(precision=precision, accumulator=accumulator)
        settings = Settings(lowering=lowering, fusion=FusionSettings(policy=policy))
        return compile_plan(self.graph, TARGET if precision == "model" else A100, settings, "world")

    def run(self, plan: Plan) -> Execution:
        return execute(plan, self.weights, self.inputs)

    def judge(self, plan: Plan, bounds_of: Plan | None = None) -> tuple[OutputError, ...]:
        """Errors of the plan's outputs against ONNX Runtime on the model's file."""
        result = self.run(plan)
        assert result.executed, result.skipped
        reference = run_reference(self.path, self.inputs)
        return compare(result.outputs, reference, error_bounds((bounds_of or plan).lowered))


def world(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[str, tuple[int, ...]]],
    outputs: Mapping[str, str],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 20,
    name: str = "model",
    values: Mapping[str, np.ndarray] | None = None,
) -> World:
    """inputs: type and shape by name; outputs: type by name; values: inputs that must not be random."""
    graph = helper.make_graph(
        list(nodes), name,
        [helper.make_tensor_value_info(n, TYPES[kind], shape) for n, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(n, TYPES[kind], None) for n, kind in outputs.items()],
        [numpy_helper.from_array(value, n) for n, value in (weights or {}).items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    return load(path, {}, values)


def load(path: Path, shapes: Mapping[str, int], values: Mapping[str, np.ndarray] | None = None) -> World:
    read = read_graph(path, shapes)
    return World(path, read, read_weights(path, shapes), {**seeded_inputs(read, seed=3), **(values or {})})


def cut_in_two(plan: Plan) -> Plan:
    """The plan with every dim of every root cut into two tiles, the second one smaller where the size is odd."""
    kernels = []
    for kernel in plan.kernels:
        if kernel.tile_plan is None:
            kernels.append(kernel)
            continue
        root = plan.lowered.ops[kernel.tile_plan.root]
        sizes = {dim.name: dim.size for dim in root.dims if dim.role == "parallel"}
        halves = {name: -(-size // 2) for name, size in sizes.items()}
        kernels.append(replace(kernel, tile_plan=with_tile(kernel.tile_plan, sizes, halves)))
    return replace(plan, kernels=tuple(kernels))


def with_tile(tile_plan: TilePlan, sizes: Mapping[str, int], tile: Mapping[str, int]) -> TilePlan:
    trips = tuple((name, -(-sizes[name] // tile[name])) for name in sizes)
    return replace(
        tile_plan, tile=tuple(tile.items()), trips=trips, loop_order=tuple(sizes),
        tiles=int(np.prod([count for _, count in trips])),
    )  # fmt: skip
