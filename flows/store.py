"""The evidence store: one folder a run, tables as Parquet, every file written atomically and known by its digest.

runs/RUN_ID/                run.json, decision.json, report.html, TABLE.parquet
runs/history.parquet        primary metrics over all runs
runs/.cache/                results and values of finished stages, by digest; deleting it costs time only
runs/.locks/                one lock a run; held by the process that works on it
runs/.service/              the server that `tilegate up` starts
runs/.logs/                 what was worked on, run by run, and tracebacks of internal errors
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from flows.digest import bytes_digest, file_digest
from schemas.decision import ArtifactDigest, Decision, Run
from schemas.documents import parse

if TYPE_CHECKING:
    import polars as pl

STORE_VARIABLE = "TILEGATE_STORE"
DEFAULT_STORE = "runs"
RUN_DOCUMENT = "run.json"
DECISION_DOCUMENT = "decision.json"
REPORT = "report.html"
CANDIDATE_COPY = "candidate.json"
PART = ".part"  # end of the name of a file that is being written

DocumentType = TypeVar("DocumentType", Run, Decision)


class StoreError(Exception):
    """The store cannot do what was asked: says what, where, and the remedy."""


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of runs. Makes its folders when first written to."""

    root: Path

    @staticmethod
    def at(path: str | Path | None) -> Store:
        """The store at `path`, else at $TILEGATE_STORE, else ./runs."""
        return Store(Path(path or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE).resolve())

    @property
    def results(self) -> Path:
        """Where Prefect keeps what tasks returned, one JSON file a cache key."""
        return self.root / ".cache" / "results"

    @property
    def prefect_home(self) -> Path:
        """Database and settings of the embedded Prefect server."""
        return self.root / ".cache" / "prefect"

    @property
    def service_home(self) -> Path:
        """Database, settings and logs of the server that `tilegate up` starts."""
        return self.root / ".service"

    @property
    def logs(self) -> Path:
        return self.root / ".logs"

    def execution_log(self, run_id: str) -> Path:
        """What was worked on for a run, one line a start and an end; cache hits leave no line."""
        return self.logs / f"{run_id}.jsonl"

    def run_folder(self, run_id: str) -> Path:
        return self.root / run_id

    def make(self) -> None:
        """Make the folder, where it is not there. StoreError where none that can be written to may be had there."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise StoreError(
                f"store {self.root}: expected a folder that can be written to, found none there "
                f"({error.strerror or error}). Name another with --store or ${STORE_VARIABLE}."
            ) from error

    def run_ids(self) -> tuple[str, ...]:
        """Runs with a lock document, oldest first."""
        found = list(self.root.glob(f"*/{RUN_DOCUMENT}"))
        return tuple(path.parent.name for path in sorted(found, key=lambda path: (path.stat().st_mtime, path)))

    def find_run(self, name: str) -> Path:
        """Folder of a run, by id, by the start of one that no other has, or by path. StoreError says what there is."""
        if not name.strip():
            raise StoreError("run '': expected the id of a run, its start, or its folder, found nothing. Name one.")
        as_path = Path(name)
        if os.path.isfile(as_path / RUN_DOCUMENT):  # noqa: PTH113  (False, not an error, for what can be no path)
            return as_path.resolve()
        matches = [run_id for run_id in self.run_ids() if run_id == name or run_id.startswith(name)]
        exact = [run_id for run_id in matches if run_id == name]
        if len(exact or matches) == 1:
            return self.run_folder((exact or matches)[0])
        known = ", ".join(matches or self.run_ids()[-5:]) or "none"
        raise StoreError(
            f"run {name!r}: expected the id of one run in {self.root}, found {len(matches)} that match. "
            f"Name one of: {known}; or give another --store."
        )

    @contextmanager
    def lock(self, run_id: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the run for this process; waits while another holds it. The system frees it when a holder dies."""
        folder = self.root / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{run_id}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
            for part in self.run_folder(run_id).glob(f".*{PART}"):
                part.unlink(missing_ok=True)  # what a killed holder was writing
            yield

    def put(self, content: bytes, suffix: str) -> str:
        """Keep bytes by their digest and return it; bytes that are kept already, unchanged, are left alone."""
        digest = bytes_digest(content)
        if not self.holds(digest, suffix):
            write_atomically(self.value_path(digest, suffix), lambda file: file.write(content))
        return digest

    def get(self, digest: str, suffix: str) -> bytes:
        """The bytes of that digest. OSError where they are gone; StoreError where they changed."""
        content = self.value_path(digest, suffix).read_bytes()
        if bytes_digest(content) != digest:
            raise StoreError(
                f"{self.value_path(digest, suffix)}: expected sha256 {digest}, found other bytes. Delete "
                f"{self.root / '.cache'} and run again: nothing but time is lost."
            )
        return content

    def holds(self, digest: str, suffix: str) -> bool:
        """Whether the bytes of that digest are here, unchanged."""
        path = self.value_path(digest, suffix)
        return path.is_file() and file_digest(path) == digest

    def publish(self, run_id: str, name: str, digest: str, suffix: str, rows: int | None = None) -> ArtifactDigest:
        """Copy kept bytes into a run under this name, where they are not there already."""
        path = self.run_folder(run_id) / name
        if not path.is_file() or file_digest(path) != digest:
            content = self.get(digest, suffix)
            write_atomically(path, lambda file: file.write(content))
        size = path.stat().st_size
        return ArtifactDigest(name=path.stem, path=name, sha256=digest, bytes=size, rows=rows)

    def value_path(self, digest: str, suffix: str) -> Path:
        return self.root / ".cache" / "values" / digest[:2] / f"{digest}.{suffix}"

    def remove_run(self, run_id: str) -> None:
        """Take a run that cannot be finished out of sight, whole."""
        shutil.rmtree(self.run_folder(run_id), ignore_errors=True)


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that a reader sees all of it or none, even if the machine stops: temporary, fsync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}{PART}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_text(folder: Path, name: str, text: str) -> ArtifactDigest:
    """A text file of a run."""
    content = text.encode()
    write_atomically(folder / name, lambda file: file.write(content))
    return ArtifactDigest(name=Path(name).stem, path=name, sha256=bytes_digest(content), bytes=len(content))


def write_document(folder: Path, name: str, document: Run | Decision) -> ArtifactDigest:
    """A document of a run, as JSON."""
    return write_text(folder, name, document.model_dump_json(indent=2) + "\n")


def read_document(path: Path, kind: type[DocumentType]) -> DocumentType:
    """A document of a run. StoreError where it is gone or no JSON, DocumentError where it breaks its schema."""
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise StoreError(
            f"{path}: expected a document that can be read, found none ({error.strerror}). Run the candidate again."
        ) from error
    except ValueError as error:
        raise StoreError(f"{path}: expected JSON, found {error}. Run the candidate again.") from error
    return parse(kind, values, str(path))


def write_table(folder: Path, name: str, frame: pl.DataFrame) -> ArtifactDigest:
    """A table of a run, once its schema holds, as Parquet."""
    from schemas.tables import validate

    path = folder / f"{name}.parquet"
    valid = validate(name, frame)
    write_atomically(path, lambda file: valid.write_parquet(file, compression="zstd", statistics=True))
    return ArtifactDigest(
        name=name, path=path.name, sha256=file_digest(path), bytes=path.stat().st_size, rows=valid.height
    )


def read_table(path: Path) -> pl.DataFrame:
    """A Parquet file of this store. StoreError where it is gone or no Parquet."""
    import polars as pl

    try:
        return pl.read_parquet(path, memory_map=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(
            f"{path}: expected a table, found {str(error).splitlines()[0]}. Run the candidate again."
        ) from error


def append_log(path: Path, row: Mapping[str, object]) -> None:
    """One line of JSON at the end of a log. A line is one write, so that lines of several threads do not mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write((json.dumps(row) + "\n").encode())


def read_log(path: Path) -> list[dict[str, object]]:
    """The whole lines of a log; a last line that a killed process left half is not one."""
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines if line]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
