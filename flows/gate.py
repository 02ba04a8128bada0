"""One run of the gate from the outside: its inputs, its lock, its stages in turn, its files."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from prefect import unmapped
from prefect.tasks import Task

from accelmodel.errors import InputError
from flows.arrivals import seeds_of
from flows.assembling import busiest_label, plan_weights, tail_ratio
from flows.digest import RESULTS, code_digest, value_digest, versions
from flows.inputs import LoadedCandidate, model_digests
from flows.progress import Watcher, warn, watcher
from flows.stages import Context, Payload, Work, kill_point
from flows.store import RUN_DOCUMENT, Store, StoreError, read_document, write_document
from flows.tasks.ingress import graphs_of, needed
from flows.tasks.judge import Dossier
from flows.tasks.scheduling import NOISE_OF_SECOND_RUN, Service
from flows.values import Ref, get_frame
from schemas.candidate import SIDES, Candidate, Side
from schemas.decision import ArtifactDigest, Run, SideLock
from schemas.errors import DocumentError
from schemas.policy import Evidence


@dataclass(slots=True)
class Gate:
    """A run while it is worked on. seconds: wall time of each stage."""

    loaded: LoadedCandidate
    store: Store
    watch: Watcher = field(default_factory=lambda: watcher.get())
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """Name of the candidate and a digest of all that its results follow from: the same command, the same run."""
        digest = value_digest({"inputs": self.loaded.digest, "code": code_digest(RESULTS)})
        return f"{self.loaded.document.name}-{digest[:12]}"

    @property
    def folder(self) -> Path:
        return self.store.run_folder(self.run_id)

    @property
    def context(self) -> Context:
        return {
            "store": str(self.store.root), "run_id": self.run_id, "candidate": str(self.loaded.path),
            "models": {name: str(path) for name, path in self.loaded.models.items()},
        }  # fmt: skip

    # --- stages ---

    def one(self, stage: Task[..., Payload], **parameters: Any) -> Payload:
        """Run a stage once."""
        return self._timed(stage.name, lambda: [self._bound(stage).submit(context=self.context, **parameters)])[0]

    def each(self, stage: Task[..., Payload], **parameters: Sequence[Any]) -> list[Payload]:
        """Run a stage over lists of equal length."""
        return self._timed(
            stage.name,
            lambda: list(self._bound(stage).map(**{"context": unmapped(self.context), **parameters})),  # type: ignore[call-overload]  # mypy takes them for options
        )

    def _bound(self, stage: Task[..., Payload]) -> Task[..., Payload]:
        return stage.with_options(result_storage=self.store.results)

    def _timed(self, name: str, start: Callable[[], list[Any]]) -> list[Payload]:
        begun = time.perf_counter()
        futures = start()
        results: list[Payload] = []
        self.watch(name, 0, len(futures))
        for future in futures:
            results.append(future.result())
            self.watch(name, len(results), len(futures))
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
        kill_point(name)
        return results

    # --- what stages are run over ---

    def works(self, opened: Payload) -> list[Work]:
        """Each workload of each side."""
        document = self.loaded.document
        return [
            {
                "side": side, "workload": workload.name, "target": opened["values"]["target"],
                "graphs": needed(graphs_of(opened, "graph", workload.name), self._most(side)),
                "settings": self._side(side).settings.model_dump(mode="json"),
            }
            for workload in document.workloads
            for side in SIDES
        ]  # fmt: skip

    def services(self, opened: Payload, works: Sequence[Work], executed: Sequence[Payload]) -> list[Service]:
        """Both sides, and the comparator again under other noise: it must pass against itself."""
        return [
            {
                "side": side, "workloads": [item.model_dump(mode="json") for item in self.loaded.document.workloads],
                "plans": {
                    work["workload"]: {label: part["values"][label] for label in work["graphs"]}
                    for work, part in zip(works, executed, strict=True)
                    if work["side"] == side
                },
                "target": opened["values"]["target"], "settings": self._side(side).settings.model_dump(mode="json"),
                "arrivals": self.arrivals(opened), "seeds": list(seeds_of(self.loaded.document)), "noise": noise,
            }
            for side, noise in (("comparator", 0), ("candidate", 0), ("comparator", NOISE_OF_SECOND_RUN))
        ]  # fmt: skip

    def tried(self, opened: Payload, works: Sequence[Work], executed: Sequence[Payload]) -> dict[str, list[Any]]:
        """Both sides, and what other settings of theirs would be planned for."""
        services = self.services(opened, works, executed)[: len(SIDES)]
        graphs = {
            workload.name: graphs_of(opened, "graph", workload.name) for workload in self.loaded.document.workloads
        }
        share = self.loaded.document.traffic.warmup_share
        return {"work": services, "graphs": [graphs] * len(services), "warmup_share": [share] * len(services)}

    def arrivals(self, opened: Payload) -> list[Ref]:
        """The requests of each replication."""
        return [opened["values"][f"arrivals:{number}"] for number in range(self.loaded.document.policy.replications)]

    def numeric(self, opened: Payload, works: Sequence[Work]) -> dict[str, list[Any]]:
        """What the numeric check of each work needs beside it."""
        documents = {workload.name: workload for workload in self.loaded.document.workloads}
        names = [work["workload"] for work in works]
        return {
            "workload": [documents[name].model_dump(mode="json") for name in names],
            "graphs": [graphs_of(opened, "numeric", name) for name in names],
            "weights": [model_digests(self.loaded.inputs, name) for name in names],
        }

    def busiest(self, works: Sequence[Work], assembled: Payload) -> dict[str, list[Any]]:
        """For each work the plan that served most, and p99 / p50 of what it served."""
        requests = get_frame(self.store, assembled["values"]["requests"])
        weights = {side: plan_weights(requests, side, self._most(side)) for side in SIDES}
        return {
            "busiest": [busiest_label(weights[work["side"]], work["workload"], work["graphs"]) for work in works],
            "tail_ratio": [tail_ratio(requests, work["side"], work["workload"]) for work in works],
        }

    def dossier(
        self,
        run: Run,
        opened: Payload,
        works: Sequence[Work],
        checked: Sequence[Payload],
        served: Sequence[Payload],
        assembled: Payload,
    ) -> Dossier:
        """Everything that the verdict rests on."""
        document, names = self.loaded.document, [workload.name for workload in self.loaded.document.workloads]
        again = dict(zip((*SIDES, "again"), served, strict=True))
        misdelivered: dict[str, dict[str, int | None]] = {side: {} for side in SIDES}
        for work, part in zip(works, checked, strict=True):
            misdelivered[work["side"]][work["workload"]] = part["facts"]["misdelivered"]
        return {
            "run": run.model_copy(update={"artifacts": ()}).model_dump(mode="json"),
            "candidate": document.model_dump(mode="json", by_alias=True), "tables": assembled["values"],
            "again": again["again"]["values"]["requests"],
            "unstable": {name: part["facts"]["unstable"] for name, part in again.items()},
            "misdelivered": misdelivered, "graphs": {name: graphs_of(opened, "graph", name) for name in names},
            "numeric": {name: graphs_of(opened, "numeric", name) for name in names},
            "target": opened["values"]["target"], "arrivals": self.arrivals(opened), "seeds": list(seeds_of(document)),
            "warnings": [
                *_of_profiles(document), *_of_sides(document), *opened["facts"]["warnings"],
                *(text for side in SIDES for text in again[side]["facts"]["warnings"]),
            ],
            "today": date.today().isoformat() if document.policy.waivers else None,
        }  # fmt: skip

    def _side(self, side: str) -> Side:
        found: Side = getattr(self.loaded.document, side)
        return found

    def _most(self, side: str) -> int:
        return self._side(side).settings.scheduling.max_batch

    # --- the lock and the files ---

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run: a second process with the same command waits, and then finds everything done.

        Bad input that shows only now leaves no half-written run behind.
        """
        self.store.make()
        with self.store.lock(self.run_id, lambda: self.watch("waiting", 0, 1)):
            try:
                yield
            except (InputError, DocumentError):
                if not self._finished():
                    self.store.remove_run(self.run_id)
                raise

    def _finished(self) -> bool:
        kept = self._kept()
        return kept is not None and bool(kept.artifacts)

    def _kept(self) -> Run | None:
        """What `run.json` says; none where there is none, or a damaged one, which this run writes anew."""
        path = self.folder / RUN_DOCUMENT
        if not path.is_file():
            return None
        try:
            return read_document(path, Run)
        except (StoreError, DocumentError) as error:
            if isinstance(error.__cause__, OSError):
                raise
            return None

    def write_lock(self) -> Run:
        """Write `run.json` before any result is believed; a run that is taken up again keeps its moment."""
        path, kept = self.folder / RUN_DOCUMENT, self._kept()
        if kept is None and path.is_file():
            warn(f"{path} could not be read. The run is taken up as a new one and writes it anew.")
        run = lock_document(self.loaded, self.run_id, kept.created if kept else datetime.now(UTC))
        if kept is None or not kept.artifacts:
            write_document(self.folder, RUN_DOCUMENT, run)
        return run

    def publish(self, files: Mapping[str, Ref]) -> tuple[ArtifactDigest, ...]:
        """Copy kept values into the run's folder under these names."""
        return tuple(
            self.store.publish(self.run_id, name, ref["sha256"], ref["suffix"], ref["rows"])
            for name, ref in files.items()
        )


def lock_document(loaded: LoadedCandidate, run_id: str, created: datetime) -> Run:
    """The evidence lock of a candidate: what the run rests on."""
    document, traffic = loaded.document, loaded.document.traffic
    if traffic.generate is not None:
        words = f"generated: {traffic.generate.kind}, {traffic.generate.rate_per_s:g} per s"
    else:
        words = traffic.file.path if traffic.file else ""
    return Run(
        run_id=run_id, candidate_name=document.name, created=created, versions=versions(),
        code_digest=code_digest(RESULTS), target=loaded.target.name,
        target_digest=next(entry.sha256 for entry in loaded.inputs if entry.role == "target"), traffic=words,
        seeds=seeds_of(document), comparator=_side_lock(document.comparator),
        candidate=_side_lock(document.candidate), declared_changes=document.declared_changes,
        inputs=loaded.inputs, artifacts=(), command=f"tilegate run {shlex.quote(loaded.path.name)}",
    )  # fmt: skip


def _of_profiles(document: Candidate) -> list[str]:
    """What a reader must know where profiles were given: no check rests on them."""
    if not (document.comparator.profiles or document.candidate.profiles):
        return []
    return ["Measured profiles are kept and shown; every check rests on modelled and replayed evidence."]


def _of_sides(document: Candidate) -> list[str]:
    """Whoever forgot to write down what the candidate changes gets a GO that means nothing."""
    same = document.comparator.settings == document.candidate.settings
    if not same or document.comparator.tags != document.candidate.tags:
        return []
    return ["Both sides have the same settings and tags: this run compares a release with itself."]


def _side_lock(side: Side) -> SideLock:
    measured: tuple[Evidence, ...] = ("measured",) if side.profiles else ()
    return SideLock(
        name=side.name, tags=side.tags, conditions=side.conditions, settings=side.settings,
        evidence=("modelled", "replayed", *measured),
    )  # fmt: skip
