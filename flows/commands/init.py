"""`tilegate init`: a commented candidate file for a model and a target, with the shapes that the model has."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from accelmodel.compile import compile_plan
from accelmodel.importers.onnx import ModelInfo, inspect, read_graph
from accelmodel.settings import Settings
from accelmodel.target import Target
from flows.commands.template import TEMPLATE
from flows.inputs import load_target
from flows.store import write_atomically
from schemas.errors import DocumentError

FILL = "FILL"
"""Stands where only the user knows the number; the candidate file is refused until it is replaced."""
REQUESTS = 4000
UTILISATION = 0.3
DEFAULT_RATE_PER_S = 100.0
WINDOW_S = 300.0

_BATCH = re.compile(r"batch|^n$|^bs$", re.IGNORECASE)
_SIZE = re.compile(r"seq|len|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dims:
    """What the symbolic dims of a model are taken for. others: must be given a size."""

    batch: str | None
    size: str | None
    others: tuple[str, ...]

    @property
    def open(self) -> tuple[str, ...]:
        """Dims that only the user can bind."""
        return (*((self.size,) if self.size else ()), *self.others)


def write_candidate(model: Path, target_name: str, output: Path, *, force: bool) -> int:
    """Write the file and say what is left to do."""
    if output.exists() and not force:
        raise DocumentError(
            source=str(output), where="--output", expected="a file that is not there yet", found="one that is",
            remedy="Name another file, or replace it with --force.",
        )  # fmt: skip
    target, info = load_target(target_name), inspect(model)
    dims = guess_dims(info)
    text = render(model, target_name, target, info, dims, output)
    write_atomically(output, lambda file: file.write(text.encode()))
    print(f"wrote {output}: {len(info.op_counts)} op types, opset {info.opset}, symbolic dims {_listed(info)}")
    if dims.open:
        print(f"replace {FILL} by the sizes of {', '.join(dims.open)}, then: tilegate run {output}")
    else:
        print(f"it runs as it is: tilegate run {output}")
    print("tags, conditions and rate are placeholders; both sides are alike until you change the candidate's settings")
    return 0


def guess_dims(info: ModelInfo) -> Dims:
    """The batch dim and the size dim by their usual names."""
    batch = next((dim for dim in info.symbolic_dims if _BATCH.search(dim)), None)
    rest = tuple(dim for dim in info.symbolic_dims if dim != batch)
    size = next((dim for dim in rest if _SIZE.search(dim)), None)
    return Dims(batch, size, tuple(dim for dim in rest if dim != size))


def render(model: Path, target_name: str, target: Target, info: ModelInfo, dims: Dims, output: Path) -> str:
    """The text of the candidate file."""
    rate = DEFAULT_RATE_PER_S if dims.open else readable(_rate_per_s(model, target, dims))
    shapes = ", ".join(f"{_key(dim)}: {FILL}" for dim in dims.open)
    inputs = "; ".join(f"{item.name} {item.dtype} [{', '.join(map(str, item.shape))}]" for item in info.inputs)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.stem).strip("-._")[:80] or "model"
    in_target = os.path.relpath(target_name, output.parent) if Path(target_name).is_file() else target_name
    return TEMPLATE.format(
        name=f"{name}-candidate",
        target=_key(in_target),
        workload=name,
        model=_key(os.path.relpath(model.resolve(), output.resolve().parent)),
        inputs=inputs.replace("\n", " "),
        batch_dim="null" if dims.batch is None else _key(dims.batch),
        size_dim="null" if dims.size is None else _key(dims.size),
        shapes=f"{{{shapes}}}",
        rate=f"{rate:g}",
        rate_is="any rate" if dims.open else f"{UTILISATION * 100:g} % of what the device takes, by its model",
        duration=f"{readable(REQUESTS / rate):g}",
        sizes=f"{{{FILL}: 1}}" if dims.size else "{1: 1}",
        window=f"{WINDOW_S:g}",
        min_samples=max(100, min(1000, int(0.5 * rate * WINDOW_S))),
        hardware=target.name,
    )


def _rate_per_s(model: Path, target: Target, dims: Dims) -> float:
    """A rate at which the device is busy a third of the time, by the model's own plan with the default settings."""
    shapes = {dims.batch: 1} if dims.batch else {}
    plan = compile_plan(read_graph(model, shapes), target, Settings(), model.stem)
    total_ns = sum(kernel.cost.total_ns for kernel in plan.kernels)
    return UTILISATION * 1e9 / total_ns if total_ns else DEFAULT_RATE_PER_S  # views only: it takes no time


def readable(value: float) -> float:
    """The number with two significant digits: what is a guess shall not look measured."""
    return float(f"{value:.1e}")


def _key(text: str) -> str:
    """A text as YAML takes it: quoted where it could be read as something else."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and text.lower() not in ("null", "true", "false", "yes", "no"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _listed(info: ModelInfo) -> str:
    return ", ".join(info.symbolic_dims) or "none"
