"""Joins inside a profile: kernels with the calls that launched them, with iterations, and with the queue ahead.

All of it over whole columns: a group (a process, a stream) and a time become one key, the rank of the time among all
times plus the group times the number of ranks. Sorting such keys sorts by group, then time, and never overflows.
"""

from __future__ import annotations

import numpy as np

from accelmodel.profile import Column, Flags, Longs


def match_calls(wanted: Column, start_ns: Longs, call_key: Longs, call_start_ns: Longs) -> Longs:
    """For each event the index of its call, -1 where there is none. [N]

    wanted: the key (correlation) of each event. Where several calls share a key (it wrapped, or several ranks stand in
    one file), the last that began no later than the event; where all began later, the first of them: events that
    start before their own call are real.
    """
    found = np.full(len(wanted), -1, np.int64)
    if not len(call_key) or not len(wanted):
        return found
    order = np.lexsort((call_start_ns, call_key))
    keys = call_key[order]
    first = np.searchsorted(keys, wanted.values, "left")
    after = np.searchsorted(keys, wanted.values, "right")
    times = np.unique(call_start_ns)
    ranks = len(times) + 1
    group = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    ranked = group * ranks + np.searchsorted(times, call_start_ns[order])
    own = group[np.minimum(first, len(keys) - 1)] * ranks + np.searchsorted(times, start_ns, "right") - 1
    last_before = np.searchsorted(ranked, own, "right") - 1
    joined = wanted.known & (after > first)
    chosen = np.maximum(last_before, first)
    found[joined] = order[chosen[joined]]
    return found


def queue_depths(group: Longs, launch_ns: Longs, start_ns: Longs) -> Longs:
    """Kernels of the same group launched before this launch began and not yet started then. [N]

    A kernel is in the queue at t where launch < t < start; in whole ns: from launch + 1 until start - 1.
    """
    left_ns = np.maximum(start_ns, launch_ns + 1)
    times = np.unique(np.concatenate([launch_ns, left_ns]))
    ranks = len(times) + 1
    entered = group * ranks + np.searchsorted(times, launch_ns)
    left = np.sort(group * ranks + np.searchsorted(times, left_ns))
    # Groups before one's own add as many that entered as left, so that they cancel.
    return np.searchsorted(np.sort(entered), entered, "left") - np.searchsorted(left, entered, "right")


def number_iterations(
    process: Longs, time_ns: Longs, known: Flags, owner: Longs, index: Longs, start_ns: Longs, end_ns: Longs
) -> Column:
    """The number of the iteration in which each event was issued, by host time. [N]

    process, time_ns, known: of the events. owner, index, start_ns, end_ns: process, number and half-open span of each
    iteration. Where one process alone marks iterations, its marks hold for all; else only for its own events.
    """
    if not len(owner) or not len(process):
        return Column.none(len(process))
    owners = np.unique(owner)
    if len(owners) == 1:
        process = np.full(len(process), owners[0])
    group = np.searchsorted(owners, owner)
    own = np.searchsorted(owners, process)
    member = known & (owners[np.minimum(own, len(owners) - 1)] == process)
    times = np.unique(start_ns)
    ranks = len(times) + 1
    keys = group * ranks + np.searchsorted(times, start_ns)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], own * ranks + np.searchsorted(times, time_ns, "right") - 1, "right") - 1
    at = order[np.maximum(place, 0)]
    inside = member & (place >= 0) & (group[at] == own) & (time_ns >= start_ns[at]) & (time_ns < end_ns[at])
    return Column.partly(index[at], inside)


def covered(group: Longs, start_ns: Longs, end_ns: Longs) -> tuple[Longs, Longs, Longs]:
    """The gaps between spans that overlap or not, group by group: (index of the span that ends the gap, start of the
    gap, length of the gap), one entry a gap. Half-open spans; a group's first span ends no gap."""
    none = np.zeros(0, np.int64)
    if not len(group):
        return none, none, none
    order = np.lexsort((end_ns, start_ns, group))
    times = np.unique(end_ns)
    ranks = len(times) + 1
    reached = np.maximum.accumulate(group[order] * ranks + np.searchsorted(times, end_ns[order]))
    before, same = reached[:-1], group[order][1:] == group[order][:-1]
    busy_until = times[(before % ranks)]
    length = start_ns[order][1:] - busy_until
    gaps = same & (length > 0)
    return order[1:][gaps], busy_until[gaps], length[gaps]
