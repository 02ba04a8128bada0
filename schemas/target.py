"""A target file: one accelerator. Field for field accelmodel.target.Target; its figures carry their public sources."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from schemas.base import Document, Name, Share

Bytes = Annotated[int, Field(ge=1, le=2**60)]
Rate = Annotated[float, Field(ge=1e-3, le=1e12)]
"""Bytes or flops per ns: from a megabyte a second up."""
Nanos = Annotated[float, Field(ge=0.0, le=1e12)]

Source = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class EngineDocument(Document):
    """One kind of arithmetic unit, per core."""

    name: Literal["matrix", "vector", "data", "host"]
    flops_per_ns: dict[str, Rate]
    """Peak rate of ONE core by element type, flops per ns (a multiply-accumulate counts 2)."""
    native_tile: Annotated[tuple[Annotated[int, Field(le=2**20)], ...], Field(min_length=3, max_length=3)]
    """The block (m, n, k) that the engine works on at once; vector engines use (1, lanes, 1)."""
    efficiency: Annotated[Share, Field(ge=1e-4)]
    """Sustained share of the peak on a full tile."""


class MemoryDocument(Document):
    """One memory level."""

    name: Literal["sram", "l2", "dram"]
    scope: Literal["core", "device"]
    """Whether each core has its own, or all cores share it."""
    capacity_bytes: Bytes
    """Bytes of one core (scope core) or of the device."""
    bandwidth_bytes_per_ns: Rate
    """Peak, bytes per ns, which is GB/s, of one core (scope core) or of the device."""
    alignment_bytes: Annotated[int, Field(ge=1, le=2**30)]
    """Buffers start at multiples of this."""
    half_transfer_bytes: Annotated[float, Field(ge=0.0, le=1e9)]
    """Contiguous transfer size that reaches half of the peak: eff(s) = peak x s / (s + half)."""


class Target(Document):
    """An accelerator: cores, engines, memory levels, launch and sync costs."""

    name: Name
    kind: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """What sort of machine it is, e.g. gpu, npu, cpu."""
    cores: Annotated[int, Field(ge=1, le=10**6)]
    engines: dict[Literal["matrix", "vector", "data", "host"], EngineDocument]
    """Arithmetic units by name; matrix, vector and data are needed."""
    sram: MemoryDocument
    """Software-managed memory of each core: shared memory, scratchpad."""
    l2: MemoryDocument | None
    """Shared cache; null where there is none."""
    dram: MemoryDocument
    """Device memory."""
    accumulator_bytes: Bytes
    """Register or accumulator space of each core for output tiles, bytes."""
    core_dram_bytes_per_ns: Rate
    """The most that one core draws from DRAM by itself, bytes per ns."""
    host_launch_ns: Nanos
    """Host time of one launch when issued one by one, ns."""
    graph_launch_ns: Nanos
    """Host time of one launch from a captured graph, ns."""
    barrier_ns: Nanos
    """Fixed cost of one device-wide barrier, ns."""
    fallback_launch_ns: Nanos
    """Round trip to the host that an op without a kernel pays, ns."""
    host_flops_per_ns: Rate
    """Arithmetic rate of the host, flops per ns."""
    host_bytes_per_ns: Rate
    """Transfer rate to and from the host, bytes per ns."""
    sources: dict[str, Source]
    """Dotted path of a figure, or a prefix of it -> its public source, or `assumed: why`, or `fitted on ...`."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Target:
        lacking = [name for name in ("matrix", "vector", "data") if name not in self.engines]
        if lacking:
            raise ValueError(f"engines: {', '.join(lacking)} needed")
        for key, engine in self.engines.items():
            if engine.name != key:
                raise ValueError(f"engines.{key}.name: {key!r} needed, found {engine.name!r}")
            if min(engine.native_tile) < 1:
                raise ValueError(f"engines.{key}.native_tile: sizes of at least 1 needed, found {engine.native_tile}")
        scopes = (("sram", self.sram, "core"), ("l2", self.l2, "device"), ("dram", self.dram, "device"))
        for level, memory, scope in scopes:
            if memory is not None and (memory.name, memory.scope) != (level, scope):
                raise ValueError(
                    f"{level}: name {level} and scope {scope} needed, found {memory.name} and {memory.scope}"
                )
        return self
