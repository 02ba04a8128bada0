"""What tests share: a quiet, offline Prefect with a home of its own, and the reference data where there is any."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent

# Prefect reads its settings when first imported, and sub-processes inherit them: set before any test module loads.
_PREFECT_HOME = Path(tempfile.mkdtemp(prefix="tilegate-prefect-"))
os.environ.update(
    {
        "PREFECT_HOME": str(_PREFECT_HOME),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",  # Prefect's client has analytics of its own, which only this switches off
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the default of 20 fails on a busy machine
        "PREFECT_LOGGING_LEVEL": "WARNING",
    }
)


def pytest_unconfigure() -> None:
    """Remove Prefect's temporary home when the session ends."""
    shutil.rmtree(_PREFECT_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of published profiles and traces: $TILEGATE_REFERENCE_DATA, or shared/data beside the checkout.

    A test that asks for it is skipped where the folder is absent. A folder named in the environment must exist.
    """
    named = os.environ.get("TILEGATE_REFERENCE_DATA")
    if named:
        folder = Path(named)
        if not folder.is_dir():
            pytest.fail(f"TILEGATE_REFERENCE_DATA names {folder}, which is not a folder: mend the path or unset it")
        return folder
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no reference data: set TILEGATE_REFERENCE_DATA or put it at {folder}")
    return folder
