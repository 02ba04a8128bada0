"""One slot of the replay: kernels start when issued, share DRAM bandwidth and end; then the batch completes.

Compiled with numba. Drivers are booked on the batch, each as a difference of two instants or as an integer that was
added to one, so that they sum exactly to the time from its start to its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelmodel.compiled import compiled
from accelmodel.replay_noise import lognormal_factor
from accelmodel.replay_records import BUSY, ENDING, IDLE, NEVER, NONE, WAITING
from accelmodel.sharing import max_min_level


@compiled
def start_program(clock: Any, work: Any, s: int, b: int) -> None:
    """Start the program of batch b on the idle slot s."""
    _, slots, _, _, batches, _, first, _, _ = work
    slot, program = slots[s], batches[b].program
    slot.batch, slot.issued = b, clock.now
    slot.kernel, slot.last = first[program], first[program + 1]
    _prepare_kernel(work, slot, clock.now)
    settle(clock, work, s)


@compiled
def settle(clock: Any, work: Any, s: int) -> None:
    """Do everything that is due on the slot at this instant."""
    slot = work[1][s]
    while slot.event <= clock.now:
        if slot.phase == WAITING:
            _begin_kernel(clock, work, slot)
        elif slot.phase == BUSY:
            _end_kernel(clock, work, slot)
        else:
            _end_batch(clock, work, slot)


@compiled
def _prepare_kernel(work: Any, slot: Any, free: int) -> None:
    """The slot is free for its next kernel at `free`; it starts once the host has issued it. Or the batch ends."""
    if slot.kernel == slot.last:
        slot.phase, slot.event = ENDING, free
        return
    batch, kernel = work[4][slot.batch], work[5][slot.kernel]
    # An op on the host is not launched ahead: the host turns to it when its operands are there.
    issued = (max(slot.issued, free) if kernel.host > 0 else slot.issued) + kernel.launch
    start = max(issued, free)
    slot.issued = issued
    slot.phase, slot.event = WAITING, start
    if kernel.fallback:
        batch.fallback += start - free
    else:
        batch.launch += start - free


@compiled
def _begin_kernel(clock: Any, work: Any, slot: Any) -> None:
    """Fix how long the kernel runs alone (scale, noise, never faster than its bytes at peak bandwidth) and start it."""
    rule, _, _, _, batches, kernels, first, _, scale = work
    batch, kernel = batches[slot.batch], kernels[slot.kernel]
    clock.kernels += 1
    compute = kernel.compute
    if len(scale):
        compute = int(np.rint(compute * scale[batch.head]))
    busy = compute + kernel.memory + kernel.throttle + kernel.host
    alone = busy
    if rule.noise_sigma > 0.0:
        factor = lognormal_factor(rule.seed, batch.head, slot.kernel - first[batch.program], rule.noise_sigma)
        alone = max(int(np.rint(busy * factor)), kernel.least)
    if kernel.fallback:
        batch.fallback += alone
    else:
        kept = min(1.0, alone / busy) if busy > 0 else 1.0
        memory, throttle = int(kernel.memory * kept), int(kernel.throttle * kept)
        batch.memory += memory
        batch.throttle += throttle
        batch.compute += min(alone, busy) - memory - throttle
        batch.noise += max(0, alone - busy)
    slot.phase, slot.event = BUSY, clock.now + alone
    slot.alone, slot.began, slot.updated = alone, clock.now, clock.now
    slot.remaining, slot.rate = float(alone), 1.0
    slot.demand = kernel.dram_bytes / alone if kernel.dram_bytes > 0.0 else 0.0
    if slot.demand > 0.0:
        clock.shared_changed = 1


@compiled
def _end_kernel(clock: Any, work: Any, slot: Any) -> None:
    """Book what sharing DRAM added, then the barrier, then make the next kernel ready."""
    batch, kernel = work[4][slot.batch], work[5][slot.kernel]
    added = clock.now - slot.began - slot.alone
    if kernel.fallback:
        batch.fallback += added + kernel.barrier
    else:
        batch.contention += added
        batch.sync += kernel.barrier
    if slot.demand > 0.0:
        slot.demand = 0.0
        clock.shared_changed = 1
    if kernel.host > 0:
        slot.issued = clock.now
    slot.kernel += 1
    _prepare_kernel(work, slot, clock.now + kernel.barrier)


@compiled
def _end_batch(clock: Any, work: Any, slot: Any) -> None:
    """All kernels of the batch have ended: its requests complete and the slot is idle."""
    batch = work[4][slot.batch]
    batch.end = clock.now
    slot.busy += clock.now - batch.start
    slot.batches += 1
    slot.requests += batch.size
    slot.queued -= batch.size if work[0].own_queues else 0
    slot.phase, slot.event, slot.batch = IDLE, NEVER, NONE
    clock.idle_slots += 1


@compiled
def share_bandwidth(clock: Any, rule: Any, slots: Any) -> None:
    """Give every running kernel its max-min share of DRAM bandwidth; move the ends of those whose share changed."""
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
