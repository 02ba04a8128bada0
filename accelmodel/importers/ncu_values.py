"""Metrics of Nsight Compute: which of them are read, in which units they come, and how their numbers are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from accelmodel.errors import InputError

Refuse = Callable[[str, str, str], InputError]
"""Makes the error of one value: expected, found, remedy."""

TIME = {
    "ns": 1.0,
    "nsecond": 1.0,
    "us": 1e3,
    "µs": 1e3,
    "usecond": 1e3,
    "ms": 1e6,
    "msecond": 1e6,
    "s": 1e9,
    "second": 1e9,
}
# The k, M and G of Nsight Compute's bytes are powers of ten.
BYTES = {"byte": 1.0, "b": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12}
RATE = {
    "hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9, "cycle/second": 1.0, "cycle/msecond": 1e3, "cycle/usecond": 1e6,
    "cycle/nsecond": 1e9, "cycle/s": 1.0, "cycle/ms": 1e3, "cycle/us": 1e6, "cycle/ns": 1e9,
}  # fmt: skip
PLAIN = {"": 1.0, "register/thread": 1.0, "register": 1.0}

# Metric, by its own name or by the one that the details page shows -> (what it is read as, its units).
METRICS: Mapping[str, tuple[str, Mapping[str, float]]] = MappingProxyType(
    {
        "gpu__time_duration.sum": ("duration_ns", TIME),
        "gpu__time_duration.avg": ("duration_ns", TIME),
        "Duration": ("duration_ns", TIME),
        "dram__bytes.sum": ("dram_bytes", BYTES),
        "dram__bytes_read.sum": ("dram_read_bytes", BYTES),
        "dram__bytes_write.sum": ("dram_write_bytes", BYTES),
        "launch__registers_per_thread": ("registers", PLAIN),
        "Registers Per Thread": ("registers", PLAIN),
        "launch__shared_mem_per_block_static": ("static_bytes", BYTES),
        "Static Shared Memory Per Block": ("static_bytes", BYTES),
        "launch__shared_mem_per_block_dynamic": ("dynamic_bytes", BYTES),
        "Dynamic Shared Memory Per Block": ("dynamic_bytes", BYTES),
        "gpc__cycles_elapsed.avg.per_second": ("clock_hz", RATE),
        "sm__cycles_elapsed.avg.per_second": ("clock_hz", RATE),
        "smsp__cycles_elapsed.avg.per_second": ("clock_hz", RATE),
        "SM Frequency": ("clock_hz", RATE),
    }
)
MISSING = frozenset({"", "n/a", "nan", "-nan", "inf", "-inf", "(nan)", "no data"})
LOCALE_REMEDY = "Export it again with LC_ALL=C before ncu, or open the report in a viewer set to English (US)."

_ENGLISH = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_NUMBER_LIKE = re.compile(r"[+-]?\d[\d.,\s\u00a0\u202f']*")


def check_locale(text: str, refuse: Refuse) -> None:
    """Refuse a number as another locale writes it. Any one of them gives away the whole file."""
    if _NUMBER_LIKE.fullmatch(text) and not _ENGLISH.fullmatch(text):
        raise refuse("a number such as 1,234.5", repr(text[:40]), LOCALE_REMEDY)


def read_value(metric: str, unit: str, text: str, refuse: Refuse) -> float | None:
    """The value of a metric of METRICS in its base unit: ns, bytes, 1/s or plain. None where it was not measured."""
    if text.strip().lower() in MISSING:
        return None
    check_locale(text, refuse)
    if not _ENGLISH.fullmatch(text):
        raise refuse("a number", repr(text[:40]), "Export it again.")
    units = METRICS[metric][1]
    scale = units.get(unit.strip().lower().removesuffix("/block"))
    if scale is None:
        raise refuse(
            f"{metric} in one of {', '.join(filter(None, units))}", repr(unit[:40]), "Export with --print-units base."
        )
    return float(text.replace(",", "")) * scale
