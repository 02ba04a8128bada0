"""One rendered report that the page's and the browser's tests share."""

import pytest

import reports
from tests.reports.worlds import world


@pytest.fixture(scope="session")
def html() -> str:
    """The NO_GO world as a page."""
    return reports.render(world("NO_GO", requests=2000))
