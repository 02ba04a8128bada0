"""Recorded traffic that does not fit in memory: a Parquet file, read a part at a time in order of arrival."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from accelmodel.importers.traffic_formats import UNITS_PS, Format, Source, choose
from accelmodel.traffic import MAX_DURATION_S, PS_PER_S, Traffic

MAX_STREAMS = 10_000
_REMEDY = "Correct or drop this row."


@dataclass(frozen=True, slots=True)
class TrafficFile:
    """A Parquet file of traffic. streams: names of all its streams. count: its requests."""

    source: Source
    columns: Format
    streams: tuple[str, ...]
    count: int

    def parts(self, rows: int = 65_536) -> Iterator[Traffic]:
        """The requests in parts of up to `rows`, with times after the first of the file. InputError names the row of
        what is missing, out of range or out of order; sizes and iterations of 0 count as 1."""
        names = list(dict.fromkeys(filter(None, (self.columns.arrival, self.columns.size, self.columns.stream,
                                                 self.columns.iterations))))  # fmt: skip
        begun, origin, last = 0, None, 0
        with parquet.ParquetFile(self.source.path) as file:
            for batch in file.iter_batches(batch_size=rows, columns=names):
                if batch.num_rows == 0:
                    continue
                ticks = self._ticks(batch, begun)
                origin = ticks[0] if origin is None else origin
                arrival_ps = self._since(ticks, origin, last, begun)
                yield self._part(batch, arrival_ps, begun)
                begun, last = begun + batch.num_rows, int(arrival_ps[-1])

    def _ticks(self, batch: pa.RecordBatch, begun: int) -> NDArray[np.int64] | NDArray[np.float64]:
        """Arrivals in the unit of the column; time stamps in ns."""
        column = batch.column(self.columns.arrival)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        return self._numbers(column, self.columns.arrival, begun)

    def _since(
        self, ticks: NDArray[np.int64] | NDArray[np.float64], origin: float, last: int, begun: int
    ) -> NDArray[np.int64]:
        stamped = pa.types.is_timestamp(parquet.read_schema(self.source.path).field(self.columns.arrival).type)
        unit_ps = UNITS_PS["ns" if stamped else self.columns.unit]
        elapsed = ticks - origin
        if float(elapsed[-1]) * unit_ps > MAX_DURATION_S * PS_PER_S:
            found = f"{float(elapsed[-1]) * unit_ps / PS_PER_S:g} s"
            remedy = "Cut a shorter part out of it, or correct traffic.file.columns.unit."
            raise self.source.wrong(begun, f"at most {MAX_DURATION_S:g} s from the first row", found, remedy)
        exact = np.rint(elapsed * float(unit_ps)) if elapsed.dtype.kind == "f" else elapsed * unit_ps
        arrival_ps: NDArray[np.int64] = exact.astype(np.int64)
        back = np.flatnonzero(np.diff(arrival_ps, prepend=last) < 0)
        if len(back):
            row = begun + int(back[0])
            raise self.source.wrong(row, "rows in order of arrival", "one before the row above it", "Sort the file.")
        return arrival_ps

    def _part(self, batch: pa.RecordBatch, arrival_ps: NDArray[np.int64], begun: int) -> Traffic:
        stream = np.zeros(len(arrival_ps), dtype=np.int32)
        if self.columns.stream:
            texts = batch.column(self.columns.stream).cast(pa.string())
            self._complete(texts, self.columns.stream, begun)
            stream = pc.index_in(texts, value_set=pa.array(self.streams)).to_numpy(zero_copy_only=False)
        repeats = self._sizes(batch, self.columns.iterations, begun) if self.columns.iterations else None
        sizes = self._sizes(batch, self.columns.size, begun)
        return Traffic(arrival_ps, sizes, stream.astype(np.int32), self.streams, iterations=repeats)

    def _sizes(self, batch: pa.RecordBatch, name: str, begun: int) -> NDArray[np.int64]:
        values = self._numbers(batch.column(name), name, begun)
        wrong = np.flatnonzero((values < 0) | (values > 2**31 - 1) | (values != np.floor(values)))
        if len(wrong):
            index = int(wrong[0])
            expected = f"a whole number from 0 to {2**31 - 1:,} as {name!r}"
            raise self.source.wrong(begun + index, expected, str(values[index]), _REMEDY)
        return np.maximum(values, 1).astype(np.int64)

    def _numbers(self, column: pa.Array, name: str, begun: int) -> NDArray[np.int64] | NDArray[np.float64]:
        self._complete(column, name, begun)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise self.source.wrong(begun, f"numbers as {name!r}", str(column.type), "Write the column as numbers.")
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind != "f":
            return np.asarray(values, dtype=np.int64)
        finite = np.isfinite(values)
        if not finite.all():
            row = begun + int(np.argmin(finite))
            raise self.source.wrong(row, f"a finite number as {name!r}", "none", _REMEDY)
        return np.asarray(values, dtype=np.float64)

    def _complete(self, column: pa.Array, name: str, begun: int) -> None:
        if column.null_count:
            row = begun + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise self.source.wrong(row, f"a value as {name!r}", "nothing", _REMEDY)


def open_traffic(path: Path, columns: Mapping[str, str] | None = None) -> TrafficFile:
    """A Parquet file of traffic to be read in parts, by the columns that `read_traffic` takes. Reads the names of its
    streams, and nothing else yet."""
    source = Source(path, "row", 1)
    try:
        with parquet.ParquetFile(path) as file:
            chosen = choose(source, tuple(file.schema_arrow.names), columns or {})
            if file.metadata.num_rows == 0:
                raise source.wrong(None, "at least one request", "none", "Give a file with rows.")
            return TrafficFile(source, chosen, _stream_names(source, file, chosen.stream), file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise source.wrong(None, "a Parquet file", str(error)[:200], "Write the file again.") from error


def _stream_names(source: Source, file: parquet.ParquetFile, column: str) -> tuple[str, ...]:
    if not column:
        return ("default",)
    names: set[str] = set()
    for batch in file.iter_batches(columns=[column]):
        names.update(name for name in batch.column(0).cast(pa.string()).unique().to_pylist() if name is not None)
        if len(names) > MAX_STREAMS:
            remedy = "Name a column with fewer values under traffic.file.columns.stream."
            raise source.wrong(None, f"at most {MAX_STREAMS:,} streams", "more", remedy)
    return tuple(sorted(names)) or ("default",)
