"""View models, charts, templates and exporters of what people read.

`render` imports the page and its libraries only when it is called, so that a command line can import this room cheaply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reports.evidence import Evidence

__all__ = ["Evidence", "render"]


def render(evidence: Evidence) -> str:
    """The report of one run as one self-contained HTML page."""
    from reports.page import render_page

    return render_page(evidence)


def __getattr__(name: str) -> Any:
    if name != "Evidence":
        raise AttributeError(f"module 'reports' has no attribute {name!r}")
    from reports.evidence import Evidence

    return Evidence
