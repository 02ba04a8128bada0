"""Numeric execution of a plan: group by group, tile by tile in the plan's own loop order, at the declared precisions.

For each tile of a group's root, the regions that the tile needs are carried back through the group, and every op is
computed on its region from the blocks of the ops before it; blocks that the next tile needs again are kept. What no
tile of the root asks for (a second result of the group) is computed afterwards, whole. Tensors are stored at their
declared types between ops, inside a group too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.execute_affine import Box, Region, cut, dims_for, is_empty, needed, union, whole_region
from accelmodel.execute_tile import CONTRACTIONS, Step, compute, step_of, unsupported
from accelmodel.execute_views import view_block, view_region
from accelmodel.graph import Graph
from accelmodel.plan import Kernel, Plan, TilePlan
from accelmodel.precision import FLOATS, numpy_type, storage_types, store

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """What running a plan gave.

    outputs: the model's outputs by name, in the model's own types. groups: results of each group that it hands on, by
    group in plan order. skipped: why nothing was executed, op by op; then both are empty. problems: what the plan left
    undone, such as elements that no tile writes (they are NaN). notes: what was run otherwise than tile by tile.
    """

    outputs: Mapping[str, Array]
    groups: Mapping[str, Mapping[str, Array]]
    skipped: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def executed(self) -> bool:
        return not self.skipped


def execute(plan: Plan, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> Execution:
    """Run the plan on the inputs. weights: value of every tensor known before the run, by name.

    An op without a numeric rule, or a weight without a value, is said in `skipped`: nothing is guessed. Inputs that do
    not fit the plan's shapes and types raise InputError.
    """
    _check_inputs(plan.lowered.graph, inputs)
    skipped = _not_numeric(plan, weights)
    if skipped:
        return Execution({}, {}, skipped, (), ())
    run = _Run.of(plan, weights, inputs)
    with np.errstate(all="ignore"):  # infinities and NaN are results, which the comparison looks at
        groups: dict[str, Mapping[str, Array]] = {k.group.name: _run_kernel(run, k) for k in plan.kernels}
    graph = plan.lowered.graph
    outputs = {name: run.model_value(name) for name in graph.outputs}
    return Execution(outputs, groups, (), tuple(run.problems), tuple(run.notes))


@dataclass(slots=True)
class _Run:
    """State of one execution. values: whole tensors as stored. steps: all ops by index. handed_on: tensors that an op
    of another group reads or the graph returns. maker: op that makes each tensor."""

    graph: Graph
    types: Mapping[str, str]
    steps: Mapping[int, Step]
    maker: Mapping[str, int]
    values: dict[str, Array]
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, plan: Plan, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> _Run:
        graph, types = plan.lowered.graph, storage_types(plan.lowered)
        known = {name: weights[name] for name in graph.tensors if name in weights} | dict(inputs)
        values = {name: store(np.asarray(value), types[name]) for name, value in known.items() if name in graph.tensors}
        steps = {i: step_of(plan.lowered, i, types) for i in range(len(graph.ops))}
        return cls(graph, types, steps, graph.producers(), values)

    def model_value(self, name: str) -> Array:
        """A tensor in the model's own type."""
        return store(self.values[name], self.graph.tensors[name].dtype)

    def fill(self, step: Step) -> float:
        """What Pad puts around its operand."""
        if step.node.op_type != "Pad":
            return 0.0
        name = step.node.inputs[2] if len(step.node.inputs) > 2 else ""
        value = self.values[name].item() if name else step.node.attribute("value", 0.0)
        assert isinstance(value, int | float)
        return float(value)


def _run_kernel(run: _Run, kernel: Kernel) -> dict[str, Array]:
    """Run one group; its results, in the model's types."""
    inside = frozenset(kernel.group.ops)
    readers = run.graph.consumers()
    made = [name for i in kernel.group.ops for name in run.graph.ops[i].outputs if name]
    handed_on = [
        name for name in made if name in run.graph.outputs or not inside.issuperset(readers.get(name, ()))
    ]  # fmt: skip
    group = _GroupRun(run, kernel.group.ops, kernel.tile_plan)
    if kernel.tile_plan is not None:
        group.run_tiles(kernel.tile_plan, frozenset(handed_on), kernel.group.name)
    late = [name for name in handed_on if name not in run.values]
    for name in late:
        run.values[name] = group.whole(name)
    if late and kernel.tile_plan is not None and any(run.steps[run.maker[name]].op.kind != "view" for name in late):
        run.notes.append(f"group {kernel.group.name}: {', '.join(late)} computed whole, after the tiles of the root")
    return {name: run.model_value(name) for name in handed_on}


@dataclass(slots=True)
class _GroupRun:
    """One group while it runs. blocks: the latest region of each tensor made in the group. boxes: the box that each
    op was last computed on; the same box again needs no work."""

    run: _Run
    ops: tuple[int, ...]
    plan: TilePlan | None
    blocks: dict[str, tuple[Region, Array]] = field(default_factory=dict)
    boxes: dict[int, object] = field(default_factory=dict)

    def run_tiles(self, plan: TilePlan, handed_on: frozenset[str], name: str) -> None:
        """All tiles of the root. What the group hands on is gathered from the tiles' blocks, where they cover it."""
        root = self.run.steps[plan.root]
        kept = handed_on | {write.tensor for write in root.writes}
        results = {tensor: self._empty(tensor) for tensor in kept if self.run.maker[tensor] <= plan.root}
        written = {tensor: np.zeros(value.shape, dtype=np.bool_) for tensor, value in results.items()}
        for box in _tiles(plan, root):
            for tensor, region, values in self._tile(plan.root, box):
                if tensor in results:
                    place = tuple(slice(low, high) for low, high in region)
                    results[tensor][place] = values
                    written[tensor][place] = True
        of_root = {write.tensor for write in root.writes}
        for tensor, value in results.items():
            missing = int(written[tensor].size - np.count_nonzero(written[tensor]))
            if not missing or tensor in of_root:
                self.run.values[tensor] = value
            if missing and tensor in of_root:
                self.run.problems.append(
                    f"group {name}: no tile writes {missing} of {value.size} elements of {tensor!r}"
                )

    def _empty(self, tensor: str) -> Array:
        """NaN where nothing is written, so that what is missing cannot look like a result."""
        stored = self.run.types[tensor]
        nothing = np.nan if stored in FLOATS else 0
        return np.full(self.run.graph.tensors[tensor].shape, nothing, dtype=numpy_type(stored))

    def whole(self, tensor: str) -> Array:
        """One tensor of the group, whole, from whatever it takes."""
        if tensor not in self.run.values:
            shape = self.run.graph.tensors[tensor].shape
            for _ in self._tile(self.run.maker[tensor], None, {tensor: whole_region(shape)}):
                pass
            region, value = self.blocks[tensor]
            assert region == whole_region(shape), f"{tensor}: a box for all of it makes {region} of {shape}"
            self.run.values[tensor] = value
        return self.run.values[tensor]

    def _tile(
        self, last: int, box: Box | None, demands: dict[str, Region] | None = None
    ) -> Iterator[tuple[str, Region, Array]]:
        """Compute op `last` on a box (or what is demanded of it) and all that it needs; yields what is made."""
        wanted = dict(demands or {})
        boxes: dict[int, Box | Region] = {}
        for index in reversed([i for i in self.ops if i <= last]):
            step = self.run.steps[index]
            mine = {write.tensor: wanted[write.tensor] for write in step.writes if write.tensor in wanted}
            if index == last and box is not None:
                boxes[index] = box
            elif mine:
                boxes[index] = mine[step.writes[0].tensor] if step.op.kind == "view" else _box(step, mine)
            else:
                continue
            for tensor, region in self._regions(step, boxes[index]):
                if tensor not in self.run.values and not is_empty(region):
                    wanted[tensor] = union(wanted[tensor], region) if tensor in wanted else region
        for index in sorted(boxes):
            yield from self._step(self.run.steps[index], index, boxes[index])

    def _regions(self, step: Step, box: Box | Region) -> Iterator[tuple[str, Region]]:
        """What the step reads for this box; for a view, `box` is the region of its output."""
        for read in step.reads:
            if read.axes is None:
                yield read.tensor, view_region(box, step.writes[0].shape, read.shape)
            else:
                yield read.tensor, needed(read, box)

    def _step(self, step: Step, index: int, box: Box | Region) -> Iterator[tuple[str, Region, Array]]:
        if self.boxes.get(index) == box:
            return
        self.boxes[index] = box
        if step.op.kind == "view":
            made = [(step.writes[0].tensor, box, self._renamed(step, box))]
        else:
            k_tile = self.plan.k_tile if self.plan is not None and step.node.op_type in CONTRACTIONS else 0
            made = compute(step, [self._block(read.tensor) for read in step.reads], box, k_tile, self.run.fill(step))
        for tensor, region, values in made:
            self.blocks[tensor] = (region, values)
            yield tensor, region, values

    def _renamed(self, step: Step, region: Region) -> Array:
        if not step.reads:  # a tensor of no elements, which nothing makes
            return self._empty(step.writes[0].tensor)
        read, write = step.reads[0], step.writes[0]
        source, values = self._block(read.tensor)
        wanted = view_region(region, write.shape, read.shape)
        return view_block(cut(values, source, wanted), wanted, read.shape, region, write.shape)

    def _block(self, tensor: str) -> tuple[Region, Array]:
        if tensor in self.run.values:
            value = self.run.values[tensor]
            return whole_region(value.shape), value
        return self.blocks[tensor]


def _tiles(plan: TilePlan, root: Step) -> Iterator[Box]:
    """Boxes of the root's tiles, outermost loop first; reduction dims whole."""
    tile, trips = dict(plan.tile), dict(plan.trips)
    names = [dim.name for dim in root.op.dims]
    loops = [name for name in plan.loop_order if name in trips]
    for turn in product(*(range(trips[name]) for name in loops)):
        at = dict(zip(loops, turn, strict=True))
        yield tuple(
            (at[name] * tile[name], min(size, (at[name] + 1) * tile[name])) if name in at else (0, size)
            for name, size in zip(names, root.sizes, strict=True)
        )


def _box(step: Step, demanded: Mapping[str, Region]) -> Box:
    """The box that makes what is demanded of the outputs; dims that they do not tell of are whole."""
    ranges: dict[int, tuple[int, int]] = {}
    for write in step.writes:
        if write.tensor not in demanded:
            continue
        for dim, (begin, end) in dims_for(write, demanded[write.tensor], step.sizes).items():
            known = ranges.get(dim, (begin, end))
            ranges[dim] = (min(known[0], begin), max(known[1], end))
    box = tuple(ranges.get(i, (0, size)) for i, size in enumerate(step.sizes))
    return tuple((0, size) if i in step.reduced else box[i] for i, size in enumerate(step.sizes))


def _not_numeric(plan: Plan, weights: Mapping[str, Array]) -> tuple[str, ...]:
    """Everything that keeps the plan from being executed."""
    lowered = plan.lowered
    reasons = [f"group {group.group!r} cannot run: {group.reason}" for group in plan.infeasible]
    reasons += [reason for i in range(len(lowered.ops)) if (reason := unsupported(lowered, i)) is not None]
    read = {access.tensor for op in lowered.ops for access in op.reads}
    unknown = sorted(name for name in read - set(weights) if lowered.graph.tensors[name].role == "weight")
    return (*reasons, *(f"weight {name!r} has no value" for name in unknown))


def _check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if name not in inputs:
            raise _wrong(name, f"a value of shape {tensor.shape}", "none")
        value = np.asarray(inputs[name])
        if value.shape != tensor.shape or value.dtype != numpy_type(tensor.dtype):
            raise _wrong(name, f"{tensor.dtype} {tensor.shape}", f"{value.dtype} {value.shape}")
    unknown = sorted(set(inputs) - set(graph.inputs))
    if unknown:
        raise _wrong(unknown[0], f"one of {graph.inputs}", "an input that the graph does not have")


def _wrong(name: str, expected: str, found: str) -> InputError:
    return InputError(
        stage="execution", where=f"input {name!r}", expected=expected, found=found,
        remedy="Give samples of the shapes that the plan was made for (samples.seeded_inputs makes some).",
    )  # fmt: skip
