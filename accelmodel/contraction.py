"""The dims of a contraction as the engine sees them: m, n, k and batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from accelmodel.plan import Access, LoweredOp


@dataclass(frozen=True, slots=True)
class Roles:
    """Dim names by role. m: dims of the first operand and the result; n: of the second and the result; k: reduced;
    batch: of all three, or (grouped convolution) of both operands and the result."""

    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]
    batch: tuple[str, ...]


@lru_cache(maxsize=4096)
def roles_of(op: LoweredOp) -> Roles:
    """Roles of an op's dims. The operands are the first two reads that touch a reduction dim; dims that neither has
    count as m, and so does everything of an op without two such operands."""
    reduced = {dim.name for dim in op.dims if dim.role == "reduction"}
    first, second = contracted(op)
    left, right = _names(first), _names(second)
    parallel = [dim.name for dim in op.dims if dim.role == "parallel"]
    return Roles(
        m=tuple(name for name in parallel if name not in right),
        n=tuple(name for name in parallel if name in right and name not in left),
        k=tuple(dim.name for dim in op.dims if dim.name in reduced),
        batch=tuple(name for name in parallel if name in left and name in right),
    )


def contracted(op: LoweredOp) -> tuple[Access | None, Access | None]:
    """The two operands of a contraction, None for those that it lacks."""
    reduced = {dim.name for dim in op.dims if dim.role == "reduction"}
    touching = [read for read in op.reads if _names(read) & reduced]
    both: list[Access | None] = [*touching[:2], None, None]
    return both[0], both[1]


def _names(access: Access | None) -> set[str]:
    return {name for axis in (access.axes or () if access else ()) for name, _ in axis.terms}
