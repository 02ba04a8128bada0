"""What a Kineto trace says of itself beside its events: devices, versions, ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from accelmodel.profile import Device, ProfileMetadata

MAX_FACTS, MAX_CHARS = 40, 200
_DRIVERS = ("cuda_driver_version", "hip_driver_version")
_RUNTIMES = ("cuda_runtime_version", "hip_runtime_version", "rocm_version")
_READ = frozenset({"deviceProperties", "distributedInfo", "traceEvents", *_DRIVERS, *_RUNTIMES})


def read_metadata(document: Mapping[str, object]) -> ProfileMetadata:
    """Every part is optional, and one of another type than expected is left out."""
    ranks = document.get("distributedInfo")
    ranks = ranks if isinstance(ranks, dict) else {}
    return ProfileMetadata(
        devices=tuple(_devices(document.get("deviceProperties"))),
        driver=_version(document, _DRIVERS),
        runtime=_version(document, _RUNTIMES),
        tool="PyTorch profiler (Kineto)",
        rank=_integer(ranks.get("rank")),
        world_size=_integer(ranks.get("world_size")),
        others=tuple(_others(document, ranks)),
    )


def _devices(properties: object) -> Iterator[Device]:
    for entry in properties if isinstance(properties, list) else ():
        if not isinstance(entry, dict) or _integer(entry.get("id")) is None:
            continue
        name = entry.get("name")
        yield Device(
            label=str(entry["id"]), name=name[:MAX_CHARS] if isinstance(name, str) else None,
            memory_bytes=_integer(entry.get("totalGlobalMem")), cores=_integer(entry.get("numSms")),
        )  # fmt: skip


def _version(document: Mapping[str, object], keys: tuple[str, ...]) -> str | None:
    """CUDA's number 12040 as 12.4; anything else as it stands."""
    for key in keys:
        value = document.get(key)
        number = _integer(value)
        if number is not None and key.startswith("cuda") and number >= 1000:
            return f"{number // 1000}.{number % 1000 // 10}"
        if isinstance(value, int | str) and value != "":
            return str(value)[:MAX_CHARS]
    return None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None


def _others(document: Mapping[str, object], ranks: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Further plain facts: schema and CUPTI versions, backend, base time and so on."""
    facts = {**{key: value for key, value in document.items() if key not in _READ}, "backend": ranks.get("backend")}
    plain = [(key, value) for key, value in facts.items() if isinstance(value, int | float | str) and value != ""]
    yield from ((str(key)[:MAX_CHARS], str(value)[:MAX_CHARS]) for key, value in plain[:MAX_FACTS])
