"""One slot of the replay: kernels start when issued, share DRAM bandwidth and end; then the batch or iteration ends.

Compiled with numba. Drivers are booked on the slot, each as a difference of two instants or as an integer that was
added to one, so that they sum exactly to the time from a batch's start to its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelmodel.compiled import compiled
from accelmodel.replay.noise import lognormal_factor, measured_factor
from accelmodel.replay.records import (
    BUSY,
    COMPUTE,
    CONTENTION,
    ENDING,
    EVENT,
    FALLBACK,
    LAUNCH,
    MEMORY,
    NEVER,
    NOISE,
    SYNC,
    THROTTLE,
    WAITING,
)
from accelmodel.replay.tree import set_key
from accelmodel.sharing import max_min_level


@compiled
def start_program(work: Any, s: int, now: int) -> None:
    """Start the slot's program."""
    issue(work, s, now)
    run_slot(work, s, now)
    slot = work.slots[s]
    if work.rules[0].solo and slot.demand > 0.0:
        # It has run in one step: its bytes are spread evenly over its time, for the profile.
        slot.demand /= max(1, slot.event - now)
        work.clocks[0].granted += slot.demand


@compiled
def issue(work: Any, s: int, now: int) -> None:
    """The host begins to issue the launches of the slot's program."""
    slot = work.slots[s]
    slot.issued, slot.since = now, now
    work.clocks[0].moved += work.moved[slot.program]
    slot.kernel, slot.last = work.first[slot.program], work.first[slot.program + 1]
    _prepare_kernel(work, slot, s, now)


@compiled
def run_slot(work: Any, s: int, now: int) -> None:
    """Do every kernel step that is due; where no kernel can slow another, the whole program at once."""
    slot = work.slots[s]
    step(work, slot, s, NEVER if work.rules[0].solo else now)
    set_key(work.trees[EVENT], s, slot.event)


@compiled
def step(work: Any, slot: Any, s: int, until: int) -> None:
    """Kernels start and end, each at its instant, up to `until`."""
    while slot.phase != ENDING and slot.event <= until:
        if slot.phase == WAITING:
            _begin_kernel(work, slot, s, slot.event)
        else:
            _end_kernel(work, slot, s, slot.event)


@compiled
def _prepare_kernel(work: Any, slot: Any, s: int, free: int) -> None:
    """The slot is free for its next kernel at `free`; it starts once the host has issued it. Or the program ends."""
    if slot.kernel == slot.last:
        slot.phase, slot.event = ENDING, free
        return
    kernel = work.kernels[slot.kernel]
    # An op on the host is not launched ahead: the host turns to it when its operands are there.
    issued = (max(slot.issued, free) if kernel.host > 0 else slot.issued) + kernel.launch
    start = max(issued, free)
    slot.issued = issued
    slot.phase, slot.event = WAITING, start
    work.spent[s, FALLBACK if kernel.fallback else LAUNCH] += start - free


@compiled
def _begin_kernel(work: Any, slot: Any, s: int, at: int) -> None:
    """Fix how long the kernel runs alone (scale, clock, noise; never faster than its bytes at peak) and start it."""
    rule, kernel, spent = work.rules[0], work.kernels[slot.kernel], work.spent[s]
    work.clocks[0].kernels += 1
    compute = kernel.compute
    if rule.scaled:
        compute = int(np.rint(compute * work.scale[slot.head & rule.mask]))
    slowed = kernel.throttle + _throttled(work, compute, kernel.memory, at)
    busy = compute + kernel.memory + slowed + kernel.host
    alone = busy
    if rule.noise_sigma > 0.0 or len(work.factors) > 0:
        alone = max(int(np.rint(busy * _factor(work, slot))), kernel.least)
    if kernel.fallback:
        spent[FALLBACK] += alone
    else:
        kept = min(1.0, alone / busy) if busy > 0 else 1.0
        memory, throttle = int(kernel.memory * kept), int(slowed * kept)
        spent[MEMORY] += memory
        spent[THROTTLE] += throttle
        spent[COMPUTE] += min(alone, busy) - memory - throttle
        spent[NOISE] += max(0, alone - busy)
    slot.phase, slot.event = BUSY, at + alone
    slot.alone, slot.began, slot.updated = alone, at, at
    if kernel.dram_bytes == 0.0:
        return
    if rule.solo:
        slot.demand += kernel.dram_bytes
        return
    slot.remaining, slot.rate = float(alone), 1.0
    slot.demand = kernel.dram_bytes / alone
    work.clocks[0].shared_changed = 1


@compiled
def _factor(work: Any, slot: Any) -> float:
    """Noise of this run of the kernel, by counter."""
    rule, position = work.rules[0], (slot.iteration << 16) + slot.kernel - work.first[slot.program]
    if len(work.factors) > 0:
        return measured_factor(rule.seed, slot.head, position, work.factors)
    return lognormal_factor(rule.seed, slot.head, position, rule.noise_sigma)


@compiled
def _throttled(work: Any, compute: int, memory: int, at: int) -> int:
    """What the clock schedule adds to a kernel that starts at `at`: a slower engine hides behind transfers first."""
    schedule = work.throttle
    if len(schedule) == 0 or at < schedule[0].at:
        return 0
    low, high = 0, len(schedule)
    while high - low > 1:
        middle = (low + high) >> 1
        if schedule[middle].at <= at:
            low = middle
        else:
            high = middle
    return max(0, int(np.rint(compute / schedule[low].clock)) - compute - memory)


@compiled
def _end_kernel(work: Any, slot: Any, s: int, at: int) -> None:
    """Book what sharing DRAM added, then the barrier, then make the next kernel ready."""
    kernel, spent = work.kernels[slot.kernel], work.spent[s]
    added = at - slot.began - slot.alone
    if kernel.fallback:
        spent[FALLBACK] += added + kernel.barrier
    else:
        spent[CONTENTION] += added
        spent[SYNC] += kernel.barrier
    if slot.demand > 0.0 and not work.rules[0].solo:
        slot.demand = 0.0
        work.clocks[0].shared_changed = 1
    if kernel.host > 0:
        slot.issued = at
    slot.kernel += 1
    _prepare_kernel(work, slot, s, at + kernel.barrier)


@compiled
def share_bandwidth(work: Any) -> None:
    """Give every running kernel its max-min share of DRAM bandwidth; move the ends of those whose share changed."""
    clock, rule, slots = work.clocks[0], work.rules[0], work.slots
    clock.shared_changed = 0
    total = 0.0
    for s in range(len(slots)):
        total += slots[s].demand
    clock.granted = min(total, rule.bandwidth)
    level = np.inf
    if total > rule.bandwidth:
        level = max_min_level(slots["demand"], rule.bandwidth)
    if level == np.inf and not clock.contended:
        return
    clock.contended = 0 if level == np.inf else 1
    for s in range(len(slots)):
        slot = slots[s]
        if slot.demand == 0.0:
            continue
        rate = 1.0 if slot.demand <= level else level / slot.demand
        if rate == slot.rate:
            continue
        slot.remaining = max(0.0, slot.remaining - slot.rate * (clock.now - slot.updated))
        slot.updated, slot.rate = clock.now, rate
        slot.event = max(clock.now + int(np.ceil(slot.remaining / rate)), slot.began + slot.alone)
        set_key(work.trees[EVENT], s, slot.event)
