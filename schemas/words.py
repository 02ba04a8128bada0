"""Numbers into words: the only place that rounds, scales and puts units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Final

MISSING: Final = "missing"
NO_BREAK: Final = "\u00a0"
NEARLY_NONE: Final = "≈0"
"""A difference that would be shown as nothing and is not."""
_LEAST_PERCENT: Final = 0.005


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit to show numbers in: shown = value / per_unit."""

    unit: str
    per_unit: float

    def text(self, value: float | None) -> str:
        """The number without its unit; `missing` where there is none."""
        if value is None or self.per_unit == 1.0:
            return number(value)  # undivided, a whole number stays one and shows no decimals
        return number(value / self.per_unit)

    def with_unit(self, value: float | None) -> str:
        """The number with its unit; `missing` where there is none."""
        if value is None:
            return MISSING
        shown = self.text(value)
        return f"{shown}{NO_BREAK}{self.unit}" if self.unit else shown


PLAIN = Scale("", 1.0)
_TIMES = (Scale("s", 1e9), Scale("ms", 1e6), Scale("µs", 1e3), Scale("ns", 1.0))
_BYTES = (Scale("GiB", 2.0**30), Scale("MiB", 2.0**20), Scale("KiB", 2.0**10), Scale("bytes", 1.0))


def time_scale(values_ns: Iterable[float | None]) -> Scale:
    """One unit of time for all the values (ns): the largest that leaves the biggest at 10 or more."""
    return _scale(_TIMES, values_ns, least=10.0)


def bytes_scale(values_bytes: Iterable[float | None]) -> Scale:
    """One unit of size for all the values (bytes): the largest that leaves the biggest at 1 or more."""
    return _scale(_BYTES, values_bytes, least=1.0)


def time_text(value_ns: float | None) -> str:
    """One time by itself, with its unit."""
    return _scale(_TIMES, [value_ns], least=1.0).with_unit(value_ns)


def bytes_text(value_bytes: float | None) -> str:
    """One size by itself, with its unit."""
    return bytes_scale([value_bytes]).with_unit(value_bytes)


def number(value: float | None, digits: int = 3) -> str:
    """At least `digits` significant digits, thousands parted by commas, a true minus sign."""
    if value is None:
        return MISSING
    if not isfinite(value):
        raise ValueError(f"a number to show must be finite, found {value}")
    if value == 0:
        return "0"
    magnitude = floor(log10(abs(value)))
    if magnitude < -4:
        return _minus(f"{value:.{digits - 1}e}".replace("e-0", "e-"))
    if isinstance(value, int) or magnitude >= digits - 1:
        return _minus(f"{value:,.0f}")
    return _minus(f"{value:,.{digits - 1 - magnitude}f}")


def count(value: int | None, one: str, many: str = "") -> str:
    """`1 check`, `2 checks`, `no checks`."""
    if value is None:
        return f"{many or one + 's'}: {MISSING}"
    shown = "no" if value == 0 else number(value)
    return f"{shown} {one if value == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    """A share as a percentage; close to 0 and to 100 it keeps the digits that matter."""
    if share is None:
        return MISSING
    return f"{_percent_digits(share * 100)}{NO_BREAK}%"


def stated_percent(share: float) -> str:
    """A share that somebody wrote down, such as a margin, as it was written: `5 %`, `0.1 %`."""
    return f"{_minus(f'{share * 100:.6g}')}{NO_BREAK}%"


def signed_percent(share: float | None) -> str:
    """A relative change as a percentage with its sign."""
    if share is None:
        return MISSING
    return f"{_signed(share * 100)}{NO_BREAK}%"


def worsening(change: float | None) -> str:
    """A relative worsening in words: `12.3 % worse`, `4 % better`, `no change`."""
    if change is None:
        return f"change {MISSING}"
    if change == 0:
        return "no change"
    return f"{percent(abs(change))} {'worse' if change > 0 else 'better'}"


def points(difference: float | None) -> str:
    """A difference of two shares, in percentage points."""
    if difference is None:
        return MISSING
    return f"{_signed(difference * 100)}{NO_BREAK}points"


def listed(items: Iterable[str], nothing: str = "none") -> str:
    """`a`, `a and b`, `a, b and c`."""
    names = list(items)
    if len(names) < 2:
        return names[0] if names else nothing
    return f"{', '.join(names[:-1])} and {names[-1]}"


def whole(value: float | None) -> float | None:
    """A mean that happens to be whole as an integer, so that it shows no decimals."""
    return int(value) if value is not None and float(value).is_integer() else value


def spaced(name: str) -> str:
    """A name of the contract as words: `kernel_performance_owner` -> `kernel performance owner`."""
    return name.replace("_", " ")


def _signed(value: float) -> str:
    """Percent or points with their sign; what would round to nothing has none."""
    if value and abs(value) < _LEAST_PERCENT:
        return NEARLY_NONE
    return f"{'+' if value > 0 else ''}{_percent_digits(value)}"


def _percent_digits(value: float) -> str:
    size = abs(value)
    if size in (0, 100) or size >= 1000:
        return _minus(f"{value:,.0f}")
    if 99.995 <= size < 100:
        return ">99.99" if value > 0 else "<−99.99"
    if size < _LEAST_PERCENT:
        return "<0.01" if value > 0 else NEARLY_NONE
    if 10 <= size < 99 or size > 101:
        return _minus(f"{value:.1f}")
    return _minus(f"{value:.2f}")


def _scale(scales: tuple[Scale, ...], values: Iterable[float | None], *, least: float) -> Scale:
    biggest = max((abs(value) for value in values if value is not None), default=0.0)
    return next((scale for scale in scales if biggest / scale.per_unit >= least), scales[-1])


def _minus(shown: str) -> str:
    return shown.replace("-", "−")
