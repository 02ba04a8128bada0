"""Digests: of bytes, files, plain values, and of the code that results depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("accelmodel", "schemas", "flows", "reports")
RESULTS = ("accelmodel", "schemas", "flows")
"""The packages that every result but the page follows from."""
LIBRARIES = ("numba", "numpy", "onnx", "onnxruntime", "pandera", "polars", "prefect", "pyarrow", "pydantic", "scipy")
_SOURCES = (".py", ".yaml", ".j2", ".css", ".js", ".html")
_BLOCK_BYTES = 1 << 20


def bytes_digest(content: bytes) -> str:
    """sha256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """sha256 of a file, read by blocks. OSError where it cannot be read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def value_digest(value: object) -> str:
    """sha256 of plain values (texts, numbers, lists, mappings), whatever the order of their keys."""
    return bytes_digest(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


@cache
def code_digest(packages: tuple[str, ...] = PACKAGES) -> str:
    """sha256 over the sources of this project's packages and the versions of the libraries that results depend on."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in _source_files(root, packages):
        digest.update(f"{path.relative_to(root)}\0{file_digest(path)}\n".encode())
    digest.update(json.dumps(versions(), sort_keys=True).encode())
    return digest.hexdigest()


@cache
def versions() -> dict[str, str]:
    """Versions of tilegate and of the libraries that results depend on."""
    return {name: version(name) for name in ("tilegate", *LIBRARIES)}


def _source_files(root: Path, packages: tuple[str, ...]) -> Iterator[Path]:
    for package in packages:
        yield from sorted(path for path in (root / package).rglob("*") if path.suffix in _SOURCES and path.is_file())
