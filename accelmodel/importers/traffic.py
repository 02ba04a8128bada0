"""Recorded traffic: the formats of traffic_formats.py as CSV, JSON lines or Parquet, and any other by its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from accelmodel.importers.traffic_findings import counted_as_one, in_order, timing_findings
from accelmodel.importers.traffic_formats import UNITS_PS, Format, Source, choose
from accelmodel.traffic import MAX_DURATION_S, MAX_REQUESTS, PS_PER_S, Traffic

MAX_FILE_BYTES = 2**31
MAX_SIZE = 2**31 - 1
MAX_STREAMS = 10_000
_ONE_THREAD = arrow_csv.ReadOptions(use_threads=False)  # only so do its errors name the row


def read_traffic(path: Path, columns: Mapping[str, str] | None = None, *, sort: bool = False) -> Traffic:
    """Requests of a .csv, .jsonl or .parquet file, its first arrival at 0.

    columns: names of the columns `arrival`, `size`, `stream` and `iterations`, where the format is not one of FORMATS,
    and `unit` (s, ms, us, ns or ps) of arrivals that are plain numbers; by default the unit at the end of the column's
    name (`arrival_ms`), else seconds. sort: put rows that go back in time in order; otherwise they are refused. What
    the record cannot show, or had to be mended, is said in the warnings: rows that were put in order, sizes and
    iterations of 0, which count as 1, gaps and quantised times, which are kept as they are.
    """
    source, names = _open(path)
    chosen = choose(source, names, columns or {})
    table = _read(source, chosen)
    if not len(table[chosen.arrival]):
        raise source.wrong(None, "at least one request", "none", "Give a file with rows below its header.")
    elapsed_ps = _arrivals(source, table[chosen.arrival], chosen)
    size, empty = _sizes(source, table[chosen.size], chosen.size)
    stream, stream_names = _streams(source, table.get(chosen.stream), len(size))
    iterations, none = None, 0
    if chosen.iterations:
        iterations, none = _sizes(source, table[chosen.iterations], chosen.iterations)
    order, said = in_order(elapsed_ps, source, sort)
    if order is not None:
        elapsed_ps, size, stream = elapsed_ps[order], size[order], stream[order]
        iterations = None if iterations is None else iterations[order]
    elapsed_ps = elapsed_ps - elapsed_ps[0]
    said += counted_as_one(empty, f"size 0 in {path.name}") + counted_as_one(none, f"0 {chosen.iterations}")
    return Traffic(elapsed_ps, size, stream, stream_names, (*said, *timing_findings(elapsed_ps)), iterations)


def _open(path: Path) -> tuple[Source, tuple[str, ...]]:
    """The names of the columns, once the file may be read at all."""
    kind = path.suffix.lower()
    source = Source(path, "row" if kind == ".parquet" else "line", 2 if kind == ".csv" else 1)
    if not os.path.isfile(path):  # noqa: PTH113  (False, not an error, for what can be no path)
        raise source.wrong(None, "a file", "none", "Correct traffic.file.path in the candidate file.")
    if kind not in (".csv", ".jsonl", ".parquet"):
        raise source.wrong(None, "a .csv, .jsonl or .parquet file", repr(kind), "Convert it, or name it by its format.")
    if not path.stat().st_size:
        raise source.wrong(None, "at least one request", "an empty file", "Give a file with rows in it.")
    if path.stat().st_size > MAX_FILE_BYTES:
        found = f"{path.stat().st_size:,} bytes"
        raise source.wrong(None, f"at most {MAX_FILE_BYTES:,} bytes", found, "Cut a representative hour out of it.")
    if kind == ".jsonl":
        with path.open("rb") as stream:
            return source, tuple(_json_object(source, 0, stream.readline()))
    return source, _parquet_names(source) if kind == ".parquet" else _csv_names(source)


def _parquet_names(source: Source) -> tuple[str, ...]:
    try:
        file = parquet.ParquetFile(source.path)
        names = tuple(file.schema_arrow.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise source.wrong(None, "a Parquet file", str(error)[:200], "Write the file again.") from error
    if file.metadata.num_rows > MAX_REQUESTS:
        found = f"{file.metadata.num_rows:,}"
        raise source.wrong(None, f"at most {MAX_REQUESTS:,} rows", found, "Cut a representative hour out of it.")
    return names


def _csv_names(source: Source) -> tuple[str, ...]:
    try:
        with arrow_csv.open_csv(source.path, read_options=_ONE_THREAD) as reader:
            return tuple(reader.schema.names)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise source.wrong(None, "a CSV header and rows", str(error)[:200], "Write the file again.") from error


def _read(source: Source, chosen: Format) -> dict[str, pa.ChunkedArray]:
    names = list(dict.fromkeys(filter(None, (chosen.arrival, chosen.size, chosen.stream, chosen.iterations))))
    kind = source.path.suffix.lower()
    if kind == ".jsonl":
        return _read_lines(source, names)
    try:
        if kind == ".parquet":
            table = parquet.read_table(source.path, columns=names)
        else:
            table = arrow_csv.read_csv(
                source.path,
                read_options=_ONE_THREAD,
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=names, column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
                ),
            )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise source.wrong(
            None, "rows of one form", str(error)[:200], "Correct this row, or write the file again."
        ) from error
    return {name: _plain(source, name, table.column(name)) for name in names}


def _plain(source: Source, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of one value a row that can be a number, a text or a time stamp; others have no meaning here."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(source, name, column.cast(kind.value_type))
    takes = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_string, pa.types.is_large_string,
        pa.types.is_timestamp, pa.types.is_date,
    )  # fmt: skip
    if any(take(kind) for take in takes):
        return column
    remedy = "Write it in one of these types, or name another column under traffic.file.columns."
    raise source.wrong(None, f"numbers, texts or time stamps as {name!r}", f"type {kind}", remedy)


def _read_lines(source: Source, names: list[str]) -> dict[str, pa.ChunkedArray]:
    values: dict[str, list[str]] = {name: [] for name in names}
    with source.path.open("rb") as stream:
        for index, line in enumerate(stream):
            if index >= MAX_REQUESTS:
                raise source.wrong(
                    index, f"at most {MAX_REQUESTS:,} lines", "more", "Cut a representative hour out of it."
                )
            entry = _json_object(source, index, line)
            for name in names:
                if not isinstance(entry.get(name), int | float | str) or isinstance(entry[name], bool):
                    found = repr(entry.get(name, "nothing"))[:80]
                    raise source.wrong(index, f"a number or text as {name!r}", found, "Correct or drop this line.")
                values[name].append(str(entry[name]))
    return {name: pa.chunked_array([pa.array(items, pa.string())]) for name, items in values.items()}


def _json_object(source: Source, index: int, line: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(line, type=dict[str, object])
    except msgspec.DecodeError as error:  # of which ValidationError is one
        raise source.wrong(
            index, "a JSON object", str(error)[:200], "Give one object a line; drop this one."
        ) from error
    except UnicodeDecodeError as error:
        raise source.wrong(index, "UTF-8 text", str(error), "Convert the file to UTF-8.") from error
    except RecursionError as error:
        raise source.wrong(index, "a flat JSON object", "one nested very deep", "Drop what is nested.") from error


def _arrivals(source: Source, column: pa.ChunkedArray, chosen: Format) -> NDArray[np.int64]:
    """Time of each row in ps after the earliest. [N]"""
    kind = column.type
    stamped = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        stamped = not _casts(column.slice(0, 1), pa.float64())
    if stamped:
        values = _converted(source, column, chosen.arrival, _stamp_type(column), "a time, as 2024-01-31 12:00:00.25")
        steps, unit = values.cast(pa.int64()).to_numpy(), "ns"
    else:
        steps, unit = _numbers(source, column, chosen.arrival), chosen.unit
    if not stamped and steps.min() < 0:
        index = int(np.argmin(steps >= 0))
        raise source.wrong(
            index, f"no negative time in {chosen.arrival!r}", str(steps[index]), "Correct or drop this row."
        )
    elapsed = steps - steps.min()
    longest = float(elapsed.max()) * UNITS_PS[unit] / PS_PER_S
    if longest > MAX_DURATION_S:
        remedy = "Cut a shorter part out of it, or correct traffic.file.columns.unit."
        raise source.wrong(None, f"at most {MAX_DURATION_S:g} s from first to last", f"{longest:g} s", remedy)
    scaled = np.rint(elapsed * float(UNITS_PS[unit])) if elapsed.dtype.kind == "f" else elapsed * UNITS_PS[unit]
    arrival_ps: NDArray[np.int64] = scaled.astype(np.int64)
    return arrival_ps


def _sizes(source: Source, column: pa.ChunkedArray, name: str) -> tuple[NDArray[np.int64], int]:
    """Whole numbers, those of 0 as 1, and how many those were."""
    values = _numbers(source, column, name)
    wrong = np.flatnonzero((values < 0) | (values > MAX_SIZE) | (values != np.floor(values)))
    if len(wrong):
        index = int(wrong[0])
        expected = f"a whole number from 0 to {MAX_SIZE:,} as {name!r}"
        raise source.wrong(index, expected, str(values[index]), "Correct or drop this row.")
    return np.maximum(values, 1).astype(np.int64), int((values == 0).sum())


def _streams(source: Source, column: pa.ChunkedArray | None, count: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    if column is None:
        return np.zeros(count, dtype=np.int32), ("default",)
    texts = _converted(source, column, "stream", pa.string(), "a name")
    names = sorted(texts.unique().to_pylist())
    if len(names) > MAX_STREAMS:
        remedy = "Name a column with fewer values under traffic.file.columns.stream."
        raise source.wrong(None, f"at most {MAX_STREAMS:,} streams", f"{len(names):,}", remedy)
    codes = pc.index_in(texts, value_set=pa.array(names))
    return codes.to_numpy().astype(np.int32), tuple(names)


def _numbers(source: Source, column: pa.ChunkedArray, name: str) -> NDArray[np.int64] | NDArray[np.float64]:
    """A column of numbers: whole ones exactly, others as float64; none missing, none infinite."""
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowException:
        whole = None
    if whole is not None and not whole.null_count:
        return np.asarray(whole.to_numpy(), dtype=np.int64)
    values = np.asarray(_converted(source, column, name, pa.float64(), "a number").to_numpy(), dtype=np.float64)
    if not np.isfinite(values).all():
        index = int(np.argmin(np.isfinite(values)))
        raise source.wrong(index, f"a finite number as {name!r}", str(values[index]), "Correct or drop this row.")
    return values


def _converted(source: Source, column: pa.ChunkedArray, name: str, kind: pa.DataType, said: str) -> pa.ChunkedArray:
    """The column in another type, or an error that names its first row that has no such value."""
    try:
        values = column.cast(kind)
    except pa.ArrowException as error:
        bad = _first_that_fails(column, kind)
        raise source.wrong(bad, f"{said} as {name!r}", _shown(column[bad]), "Correct or drop this row.") from error
    if values.null_count:
        index = values.is_null().index(True).as_py()
        raise source.wrong(index, f"{said} as {name!r}", "nothing", "Correct or drop this row.")
    return values


def _first_that_fails(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row of a column that, as a whole, cannot be cast: by halves, as rows before it can."""
    low, high = 0, len(column) - 1
    while low < high:
        middle = (low + high) // 2
        if _casts(column.slice(low, middle - low + 1), kind):
            low = middle + 1
        else:
            high = middle
    return low


def _casts(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowException:
        return False
    return True


def _shown(value: pa.Scalar) -> str:
    """A value in a message; Python has no time stamps of some years that Arrow has."""
    try:
        return repr(value.as_py())[:80]
    except (OverflowError, ValueError):
        return f"{value.type} of {value.value}"


def _stamp_type(column: pa.ChunkedArray) -> pa.DataType:
    """Time stamps with a zone, or none, as the first row has it."""
    zoned, naive, first = pa.timestamp("ns", "UTC"), pa.timestamp("ns"), column.slice(0, 1)
    return zoned if not _casts(first, naive) and _casts(first, zoned) else naive
