"""The least of a row of keys, kept under changes in O(log n): a tournament over slots, by event, load or idle time.

A tree is int64 [2 x leaves], leaves a power of two: entry 1 is the least of all, entry i the lesser of 2i and 2i + 1,
and the keys themselves are the second half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.compiled import compiled
from accelmodel.replay.records import NEVER


def new_trees(rows: int, size: int) -> npt.NDArray[np.int64]:
    """Trees over `size` keys, all NEVER. [rows, 2 x leaves]"""
    return np.full((rows, 2 * (1 << (size - 1).bit_length())), NEVER, dtype=np.int64)


@compiled
def set_key(tree: Any, index: int, key: int) -> None:
    """Change one key; goes up only as far as the least changes."""
    i = (len(tree) >> 1) + index
    tree[i] = key
    while i > 1:
        least = min(tree[i], tree[i ^ 1])
        i >>= 1
        if tree[i] == least:
            return
        tree[i] = least


@compiled
def lowest(tree: Any) -> int:
    """Index of the least key, the first of equals."""
    leaves, i = len(tree) >> 1, 1
    while i < leaves:
        i <<= 1
        if tree[i + 1] < tree[i]:
            i += 1
    return i - leaves
