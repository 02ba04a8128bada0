"""What the plan stages share: the plans of a work by label, and what this process has worked out already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from accelmodel.compile import TileResult
from accelmodel.graph import Graph
from accelmodel.memo import Memo
from accelmodel.plan import Placement
from accelmodel.settings import Settings
from accelmodel.target import Target
from flows.labels import plan_settings
from flows.stages import Context, Payload, Work, settings_of
from flows.store import Store
from flows.values import get_value, put_value

Tiles = tuple[TileResult, ...]
Placements = tuple[Placement | None, ...]

memo = Memo()
"""Costs of groups and tile plans, for every plan and hybrid that this process compiles. It changes no result."""

in_turn = Lock()
"""Held while fusion is planned: two threads at once would work out the same costs twice, and Python runs only one."""


class Plans:
    """The plans of one work: what each needs, and a place for what a stage makes of each."""

    def __init__(self, context: Context, work: Work) -> None:
        self._store, self._work, self._settings = Store(Path(context["store"])), work, settings_of(work)
        self.target = get_value(self._store, work["target"], Target)

    def settings(self, label: str) -> Settings:
        return plan_settings(self._settings, label)

    def graph(self, label: str) -> Graph:
        return get_value(self._store, self._work["graphs"][label], Graph)

    def of(self, payload: Payload, label: str, kind: Any) -> Any:
        """What an earlier stage kept for a plan."""
        return get_value(self._store, payload["values"][label], kind)

    def keep(self, stage: str, kind: Any, make: Callable[[str], object]) -> Payload:
        """Keep what `make` gives for each plan, by its label."""
        values = {label: put_value(self._store, make(label), kind) for label in self._work["graphs"]}
        return {"stage": stage, "values": values, "facts": {}}
