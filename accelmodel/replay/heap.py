"""Ready batches of a queue in the order of its policy: a pairing heap whose links lie in the batches themselves.

Pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986): adding is O(1), taking the first O(log n) amortised. It needs
no room of its own, so any number of queues share one pool. Keys end with the batch's number, so no two are equal.
"""

from __future__ import annotations

from typing import Any

from accelmodel.compiled import compiled
from accelmodel.replay.records import NONE


@compiled
def meld(batches: Any, a: int, b: int) -> int:
    """Join two heaps, given by their roots or NONE; gives the root."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    one, other = batches[a], batches[b]
    if other.key < one.key or (other.key == one.key and other.number < one.number):
        a, b = b, a
    parent, child = batches[a], batches[b]
    child.sibling = parent.child
    if parent.child != NONE:
        batches[parent.child].before = b
    child.before = a
    parent.child = b
    return a


@compiled
def without_root(batches: Any, root: int) -> int:
    """Take the root out: its children are melded in pairs, then from the last pair back."""
    following, pairs = batches[root].child, NONE
    batches[root].child = NONE
    while following != NONE:
        a, b = following, batches[following].sibling
        following = NONE if b == NONE else batches[b].sibling
        _alone(batches[a])
        if b != NONE:
            _alone(batches[b])
        pair = meld(batches, a, b)
        batches[pair].sibling = pairs
        pairs = pair
    top = NONE
    while pairs != NONE:
        pair = pairs
        pairs = batches[pair].sibling
        batches[pair].sibling = NONE
        top = meld(batches, top, pair)
    return top


@compiled
def moved_up(batches: Any, root: int, b: int) -> int:
    """The key of b has fallen: put it where it belongs; gives the root."""
    if root == b:
        return root
    _cut(batches, b)
    return meld(batches, root, b)


@compiled
def without(batches: Any, root: int, b: int) -> int:
    """Take b out, wherever it stands; gives the root."""
    if root == b:
        return without_root(batches, root)
    _cut(batches, b)
    return meld(batches, root, without_root(batches, b))


@compiled
def _cut(batches: Any, b: int) -> None:
    """Take b with all below it out of the heap that it is not the root of."""
    row = batches[b]
    above, right = row.before, row.sibling
    if batches[above].child == b:
        batches[above].child = right
    else:
        batches[above].sibling = right
    if right != NONE:
        batches[right].before = above
    _alone(row)


@compiled
def _alone(row: Any) -> None:
    row.before, row.sibling = NONE, NONE
