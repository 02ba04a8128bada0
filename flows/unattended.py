"""Prefect's heartbeat of a flow run: needed where a server looks for dead runs, a second of waiting where none does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings


@contextmanager
def without_heartbeat() -> Iterator[None]:
    """No heartbeat inside: its thread sleeps whole seconds, and the flow waits for it at its end."""
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield
