"""Operands of one tile, from their blocks as stored to arrays over the dims of the op in the type it works in."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from accelmodel.execute_affine import Box, Operand, Region, cut, needed, view
from accelmodel.precision import load

Array = npt.NDArray[Any]
Block = tuple[Region, Array]


def lay_out(read: Operand, block: Block, box: Box, working: str, fill: float) -> Array:
    """What the box reads of a block, one axis a dim, of size 1 where it does not vary; `fill` outside the tensor."""
    region, values = block
    wanted = needed(read, box)
    return view(load(cut(values, region, wanted), working), wanted, read, box, fill)
