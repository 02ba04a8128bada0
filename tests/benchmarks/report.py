"""How every benchmark speaks: a table for people, one JSON object with `--json` for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def publish(benchmark: str, rows: Sequence[Mapping[str, Any]], *, as_json: bool, **extra: Any) -> None:
    """Print `rows` (same keys in each, units in the names) as a table, or as {"benchmark", "rows", ...extra}."""
    if as_json:
        json.dump({"benchmark": benchmark, "rows": list(rows), **extra}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    table = Table(title=benchmark)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    for key in keys:
        table.add_column(key)
    for row in rows:
        table.add_row(*(_shown(row.get(key)) for key in keys))
    Console().print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
