"""Measured profiles: which tool wrote a file is told by its content, never by its name."""

from __future__ import annotations

import re
from pathlib import Path

from accelmodel.importers.kineto import read_kineto
from accelmodel.importers.ncu import read_ncu
from accelmodel.importers.nsys import read_nsys
from accelmodel.importers.onnxruntime_profile import read_onnxruntime_profile
from accelmodel.importers.profile_file import opened, wrong
from accelmodel.importers.sqlite_file import MAGIC as SQLITE
from accelmodel.profile import Profile

HEAD_BYTES = 2**16
_KNOWN = (
    "a PyTorch profiler trace (.json, .json.gz), an Nsight Systems export (SQLite), an Nsight Compute CSV or an ONNX "
    "Runtime profile (.json)"
)
_OTHERS = {
    b"PAR1": ("a Parquet file", "Name it in the candidate file if it has the layout of profile_kernels."),
    b"PK\x03\x04": ("a zip archive", "Unpack it."),
    b"\x28\xb5\x2f\xfd": ("zstd data", "Unpack it."),
    b"BZh": ("bzip2 data", "Unpack it."),
    b"\xfd7zXZ": ("xz data", "Unpack it."),
    b"\xff\xfe": ("UTF-16 text", "Convert it to UTF-8: PowerShell's > writes UTF-16."),
    b"\xfe\xff": ("UTF-16 text", "Convert it to UTF-8."),
    b"QDSTRM": ("an Nsight Systems stream", "Convert it: nsys export --type sqlite."),
    b"\x1f\x8b": ("gzip data inside gzip data", "Unpack it once."),
}
_RUNTIME_EVENT = re.compile(rb'"cat"\s*:\s*"(?:Session|Node)"')
_COMPUTE = re.compile(rb'^==(?:PROF|WARNING|ERROR)==|^"?[^\n]{0,400}\bKernel Name\b', re.MULTILINE)


def read_profile(path: Path) -> Profile:
    """The profile in a file, whatever tool of those known wrote it.

    Raises InputError for what is damaged, empty, too large or of another kind. A file that is sound and holds no
    kernel is returned with a finding that says so: it is no measurement of 0.
    """
    with opened(path) as source:
        head = source.peek(HEAD_BYTES)
        if head.startswith(SQLITE):
            if source.packed:
                raise wrong(path, "", "an SQLite file as it is", "one inside gzip data", "Unpack it.")
            return read_nsys(path)
        for magic, (what, remedy) in _OTHERS.items():
            if head.startswith(magic):
                raise wrong(path, "", _KNOWN, what, remedy)
        first = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if first == b"[" and _RUNTIME_EVENT.search(head):
            return read_onnxruntime_profile(source)
        if first in (b"{", b"["):
            return read_kineto(source)
        if _COMPUTE.search(head):
            return read_ncu(source)
    raise wrong(
        path, "", _KNOWN, f"a file that begins with {head[:16]!r}",
        "Export it: nsys export --type sqlite, ncu --csv --page raw, or export_chrome_trace of the PyTorch profiler.",
    )  # fmt: skip
