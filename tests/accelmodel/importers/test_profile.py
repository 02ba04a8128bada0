"""Which reader a file goes to is told by its content; what none of them reads is named with a remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from accelmodel.errors import InputError
from accelmodel.importers.profile import read_profile
from tests.accelmodel.importers.traces import FIVE_KERNELS, long_csv, write_nsys, write_trace


def test_a_misleading_name_does_not_matter(tmp_path: Path) -> None:
    assert read_profile(write_trace(tmp_path / "a.sqlite", FIVE_KERNELS)).kind == "kineto"
    assert read_profile(write_nsys(tmp_path / "b.json")).kind == "nsys"
    (tmp_path / "c.parquet").write_text(long_csv((0, "k", "Duration", "ns", "5")))
    assert read_profile(tmp_path / "c.parquet").kind == "ncu"


def test_a_bare_list_of_trace_events_is_a_trace(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t", FIVE_KERNELS)
    text = path.read_text()
    path.write_text(text[text.index("[") : text.rindex("]") + 1])
    assert read_profile(path).kernels == 5


@pytest.mark.parametrize(
    ("data", "named"),
    [(b"PAR1....", "Parquet"), (b"PK\x03\x04....", "zip"), (b"\x28\xb5\x2f\xfd....", "zstd"),
     (b"\xff\xfeI\x00", "UTF-16"), (gzip.compress(gzip.compress(b"{}")), "gzip data inside"),
     (b"\x7fELF....", "begins with")],
)  # fmt: skip
def test_other_files_are_named(data: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(InputError, match=named):
        read_profile(path)


def test_a_packed_database_is_asked_for_as_it_is(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report")
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match="Unpack it"):
        read_profile(path)
