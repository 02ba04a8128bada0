"""What an Nsight Systems export says of itself: its version, the driver, the devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from accelmodel.importers.sqlite_file import Tables
from accelmodel.profile import Device, ProfileMetadata

EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")  # the name differs by version
CAPTURE_TABLES = ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV")
MAX_FACTS, MAX_CHARS, MAX_DEVICES = 40, 200, 1_000
_DRIVER = re.compile(r"driver.*version", re.IGNORECASE)
_RUNTIME = re.compile(r"(cuda|runtime).*version", re.IGNORECASE)


def read_metadata(tables: Tables) -> ProfileMetadata:
    """Every part is optional."""
    exported = _facts(tables, EXPORT_TABLES)
    captured = _facts(tables, CAPTURE_TABLES)
    version = exported.get("EXPORT_PRODUCT_VERSION")
    return ProfileMetadata(
        devices=tuple(_devices(tables)),
        driver=_matching(captured, _DRIVER),
        runtime=_matching({name: value for name, value in captured.items() if not _DRIVER.search(name)}, _RUNTIME),
        tool=f"Nsight Systems {version}" if version else "Nsight Systems",
        others=tuple((exported | captured).items())[:MAX_FACTS],
    )


def physical_devices(tables: Tables) -> dict[tuple[int, int], int]:
    """(process, its own number of a device) -> number of the GPU: processes may each see another one as device 0."""
    table, columns = "TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")
    if not set(columns) <= set(tables.columns(table)):
        return {}
    rows = next(tables.rows(table, columns), [])[:MAX_DEVICES]
    return {(pid, own): gpu for pid, own, gpu in rows if all(isinstance(each, int) for each in (pid, own, gpu))}  # type: ignore[misc]


def _facts(tables: Tables, names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in tables.pairs(names):
        if len(found) >= MAX_FACTS:
            break
        found.setdefault(name[:MAX_CHARS], value[:MAX_CHARS])
    return found


def _matching(facts: Mapping[str, str], pattern: re.Pattern[str]) -> str | None:
    return next((value for name, value in facts.items() if pattern.search(name) and value), None)


def _devices(tables: Tables) -> Iterator[Device]:
    """Rows of TARGET_INFO_GPU. clockRate is in Hz, memoryBandwidth in bytes a second."""
    columns = ("id", "name", "totalMemory", "smCount", "clockRate", "memoryBandwidth")
    rows = next(tables.rows("TARGET_INFO_GPU", columns), [])
    for number, name, memory, cores, clock, bandwidth in rows[:MAX_DEVICES]:
        clock_hz, bytes_per_s = _positive(clock), _positive(bandwidth)
        yield Device(
            label=str(number), name=name[:MAX_CHARS] if isinstance(name, str) else None, memory_bytes=_positive(memory),
            cores=_positive(cores), clock_mhz=None if clock_hz is None else clock_hz / 1e6,
            bandwidth_bytes_per_ns=None if bytes_per_s is None else bytes_per_s / 1e9,
        )  # fmt: skip


def _positive(value: object) -> int | None:
    """Nsight writes 0 for what it does not know."""
    return value if isinstance(value, int) and value > 0 else None
