"""What a section is made of: tables, charts, facts, notes, code, and folds that hold more of them.

Frozen values that hold finished text: templates lay them out and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Tone = Literal["", "good", "bad", "warn", "muted"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One value, as text. sub: a second, quieter line. href: where it leads. title: said on hover and to readers.

    badge: shown as a label with its tone. code: shown in the fixed-width face. more: the whole of a long text, folded
    behind `text`."""

    text: str
    sub: str = ""
    tone: Tone = ""
    href: str = ""
    title: str = ""
    badge: bool = False
    code: bool = False
    more: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column. wide: text that needs room; numeric: right-aligned."""

    label: str
    numeric: bool = False
    wide: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; the first cell is its head. id: its anchor on the page. mark: `bad` failed, `note` is to be seen."""

    id: str
    cells: tuple[Cell, ...]
    mark: Literal["", "bad", "note"] = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Rows beyond `fold_after` are folded, not left out (0: none are)."""

    block: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    fold_after: int = 0

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"table {self.caption!r}, row {row.id!r}: {len(row.cells)} cells in "
                                 f"{len(self.columns)} columns")  # fmt: skip

    @property
    def shown(self) -> tuple[Row, ...]:
        return self.rows[: self.fold_after] if self._folds else self.rows

    @property
    def folded(self) -> tuple[Row, ...]:
        return self.rows[self.fold_after :] if self._folds else ()

    @property
    def _folds(self) -> bool:
        # Folding away two rows costs the reader more than it saves.
        return 0 < self.fold_after < len(self.rows) - 2


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: `spec` is Vega-Lite. `description` says what it shows to whoever cannot see it."""

    block: ClassVar[str] = "chart"
    id: str
    title: str
    description: str
    spec: Mapping[str, Any]
    height_px: int


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts side by side where there is room."""

    block: ClassVar[str] = "charts"
    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True)
class Note:
    block: ClassVar[str] = "note"
    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """Says that something is not there. It never looks like an empty or a zero result."""

    block: ClassVar[str] = "missing"
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of name and value."""

    block: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to type."""

    block: ClassVar[str] = "code"
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks behind a summary line that opens without scripts."""

    block: ClassVar[str] = "fold"
    summary: str
    blocks: tuple[Block, ...]
    open: bool = False


Block = Table | Chart | Charts | Note | Missing | Facts | Code | Fold


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page. lead: the sentence that says what to see in it."""

    id: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


def charts_of(blocks: Iterable[Block]) -> tuple[Chart, ...]:
    """Every chart in the blocks, in order."""
    found: list[Chart] = []
    for block in blocks:
        if isinstance(block, Chart):
            found.append(block)
        elif isinstance(block, Charts):
            found.extend(block.charts)
        elif isinstance(block, Fold):
            found.extend(charts_of(block.blocks))
    return tuple(found)


def row_ids(blocks: Iterable[Block]) -> tuple[str, ...]:
    """Anchor of every row in the blocks, in order."""
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            found.extend(row.id for row in block.rows)
        elif isinstance(block, Fold):
            found.extend(row_ids(block.blocks))
    return tuple(found)
