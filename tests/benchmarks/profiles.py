"""Profiles read: `python -m tests.benchmarks.profiles [FILE ...] [--json]`.

Each file in a process of its own, measured from outside: wall seconds from its start, imports included, and its peak
resident memory. Without files: a real PyTorch trace ($TILEGATE_REFERENCE_DATA, else ../shared/data) grown to 100 MB by
repeating its events later and with correlations of their own, packed and unpacked. A file that is refused has no
counts, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import measure
from tests.benchmarks.report import publish

GROWN_BYTES = 100_000_000
TRACE = "profiles/kineto_trace_diff_control_control.json.gz"
LIMIT_S, LIMIT_MIB = 3.0, 1024.0
INVALID_INPUT = 3
_READ = """
import json, sys
from pathlib import Path
from accelmodel.errors import InputError
from accelmodel.importers.profile import read_profile
try:
    profile = read_profile(Path(sys.argv[1]))
except InputError as error:
    sys.exit(f"{error}")
print(json.dumps([profile.kind, profile.kernels, profile.launch_calls, profile.unjoined_kernels, profile.findings]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [row(path) for path in given.files] if given.files else _rows_of_grown(_reference() / TRACE)
    publish("profiles", rows, as_json=given.json, limit_seconds_of_100_mb=LIMIT_S, limit_mib=LIMIT_MIB)
    sys.exit(INVALID_INPUT if any(each["kind"] is None for each in rows) else 0)


def _rows_of_grown(trace: Path) -> list[dict[str, Any]]:
    if not trace.is_file():
        print(f"skipped: no {trace}; set TILEGATE_REFERENCE_DATA, or name files", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        return [row(path) for path in grown(trace, Path(folder))]


def row(path: Path) -> dict[str, Any]:
    """What reading one file gives and takes. megabytes: as JSON or CSV where it is packed, in units of 10^6."""
    taken = measure([sys.executable, "-c", _READ, str(path)])
    kind, kernels, launches, unjoined, findings = None, None, None, None, []
    if taken.exit_code == 0:
        kind, kernels, launches, unjoined, findings = json.loads(taken.stdout)
    for remark in [taken.stderr.strip()] if kind is None else findings:
        print(f"{path}: {remark}", file=sys.stderr)
    return {
        "file": path.name, "kind": kind, "megabytes": _megabytes(path), "kernels": kernels, "launches": launches,
        "unjoined_kernels": unjoined, "seconds": taken.seconds, "peak_mib": taken.peak_mib,
    }  # fmt: skip


def grown(trace: Path, folder: Path) -> tuple[Path, Path]:
    """The trace repeated until it has GROWN_BYTES, one repeat after the other, the last one cut: (plain, packed)."""
    document = json.loads(gzip.decompress(trace.read_bytes()))
    events = document.pop("traceEvents")
    times = [event["ts"] for event in events if "ts" in event]
    span_us = max(times) - min(times) + 1_000
    keys = max(event["args"].get("correlation", 0) for event in events if "args" in event) + 1
    plain, packed = folder / "grown.json", folder / "grown.json.gz"
    left = GROWN_BYTES
    with plain.open("w") as stream:
        left -= stream.write(json.dumps(document)[:-1] + ', "traceEvents": [\n{}')
        for repeat, event in ((number, event) for number in itertools.count() for event in events):
            left -= stream.write(",\n" + json.dumps(_later(event, repeat * span_us, repeat * keys)))
            if left <= 0:
                break
        stream.write("\n]}\n")
    packed.write_bytes(gzip.compress(plain.read_bytes(), 6))
    return plain, packed


def _later(event: dict[str, Any], by_us: int, by_keys: int) -> dict[str, Any]:
    """The event later, and its correlation, where it has one, further on."""
    moved = {**event, "ts": event["ts"] + by_us} if "ts" in event else dict(event)
    if "correlation" in event.get("args", {}):
        moved["args"] = {**event["args"], "correlation": event["args"]["correlation"] + by_keys}
    return moved


def _megabytes(path: Path) -> float | None:
    """Size of the content; None of a file that cannot be unpacked or is not there."""
    try:
        with path.open("rb") as raw:
            if raw.read(2) != b"\x1f\x8b":
                return path.stat().st_size / 1e6
        with gzip.open(path) as stream:
            return sum(len(block) for block in iter(lambda: stream.read(2**20), b"")) / 1e6
    except (OSError, EOFError):
        return None


def _reference() -> Path:
    return Path(os.environ.get("TILEGATE_REFERENCE_DATA") or Path(__file__).resolve().parents[3] / "shared/data")


if __name__ == "__main__":
    main()
