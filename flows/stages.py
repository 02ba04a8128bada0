"""How a stage becomes a Prefect task: its cache key, its checks on a hit, its log line, its retries.

A key holds the digests of what a stage's result follows from: what it got from earlier stages, the settings it reads,
the code. Nothing else: not the run, not a path, not the time. So a killed run resumes, a second run shares what it has
in common with the first, and no result outlives a change of the code.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar

from prefect import task
from prefect.tasks import Task

from accelmodel.errors import InputError
from accelmodel.settings import Settings
from flows.digest import RESULTS, code_digest, value_digest
from flows.store import Store, append_log
from flows.values import Ref

P = ParamSpec("P")
R = TypeVar("R")

RETRIES = 2
RETRY_DELAY_S = 0.2
# Tests kill the process there, to see that the run resumes: `STAGE` after the stage, `in:STAGE` inside it.
KILL_VARIABLE = "TILEGATE_TEST_KILL"


class Context(TypedDict):
    """Where a run is kept and its files lie. Never part of a key: what a stage reads by it, another parameter digests.

    models: workload -> ONNX file.
    """

    store: str
    run_id: str
    candidate: str
    models: dict[str, str]


class Payload(TypedDict):
    """What a stage returns: references to what it kept, and small facts."""

    stage: str
    values: dict[str, Ref]
    facts: dict[str, Any]


class Work(TypedDict):
    """One side of one workload: what the plan stages are mapped over.

    graphs: label of a plan (`bucket/batch`) -> its Graph. target: the Target. settings: of all eight stages.
    """

    side: str
    workload: str
    graphs: dict[str, Ref]
    target: Ref
    settings: dict[str, dict[str, Any]]


def stage_task(
    stage: str, *, reads: tuple[str, ...] = (), label: str = "", packages: tuple[str, ...] = RESULTS
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a task of a function whose parameters are plain values and, first, a `context`.

    reads: the stages whose settings its result depends on. label: what a run of it is called beside the stage, a
    format over its parameters. packages: whose sources its result follows from.
    """

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        where = (function.__module__, function.__name__)
        _BODIES[where] = function

        @wraps(function)
        def body(*args: P.args, **kwargs: P.kwargs) -> R:
            result: R = run_body(stage, where, args, kwargs)
            return result

        # What a task carries to another process is its body by value: it must not bring its module's locks along.
        body.__signature__ = signature(function)  # type: ignore[attr-defined]  # for Prefect, in place of what follows
        del body.__wrapped__

        def key(_: object, parameters: dict[str, Any]) -> str:
            found = stage_key(stage, reads, parameters, packages)
            forget_if_broken(Store(Path(parameters["context"]["store"])), found)
            return found

        decorated: Task[P, R] = task(
            name=stage,
            task_run_name=f"{stage} {label}".strip(),
            cache_key_fn=key,
            persist_result=True,
            result_serializer="json",
            retries=RETRIES,
            retry_delay_seconds=RETRY_DELAY_S,
            retry_condition_fn=_is_io_failure,
        )(body)  # type: ignore[call-overload]  # the overloads know no wrapped function
        return decorated

    return decorate


_BODIES: dict[tuple[str, str], Callable[..., Any]] = {}
"""What the tasks of this process do, by module and name."""


def run_body(stage: str, where: tuple[str, str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Do what a task does, in whatever process it was sent to."""
    import_module(where[0])  # which enters it above
    function = _BODIES[where]
    parameters = signature(function).bind(*args, **kwargs).arguments
    side = parameters.get("work", {}).get("side") or parameters.get("side")
    with _logged(stage, parameters), naming(", ".join(filter(None, (parameters["context"]["candidate"], side)))):
        return function(*args, **kwargs)


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Bad input that shows inside is said to stand there: a stage knows neither the candidate file nor the side."""
    try:
        yield
    except InputError as error:
        where = f"{place}: {error.where}"
        raise InputError(
            stage=error.stage, where=where, expected=error.expected, found=error.found, remedy=error.remedy
        ) from error


def stage_key(
    stage: str, reads: tuple[str, ...], parameters: Mapping[str, Any], packages: tuple[str, ...] = RESULTS
) -> str:
    """The cache key of a stage: a digest of all that its result follows from."""
    given = {name: value for name, value in parameters.items() if name != "context"}
    if "work" in given:
        settings = {name: given["work"]["settings"][name] for name in reads}
        given["work"] = {**given["work"], "settings": settings}
    return f"{stage}-{value_digest({'code': code_digest(packages), 'given': given})}"


def forget_if_broken(store: Store, key: str) -> None:
    """Remove a kept result that cannot be trusted: not readable, or one of its values gone or changed."""
    path = store.results / key
    if not path.is_file():
        return
    try:
        record = json.loads(path.read_bytes())
        payload = json.loads(record["result"])
        sound = all(store.holds(ref["sha256"], ref["suffix"]) for ref in _refs(payload["values"]))
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        path.unlink(missing_ok=True)


def settings_of(work: Work) -> Settings:
    """The settings of a work as the model takes them."""
    from flows.inputs import settings_from

    return settings_from(work["settings"])


def kill_point(name: str) -> None:
    """End this process like a power cut where a test asks for it."""
    if os.environ.get(KILL_VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _logged(stage: str, parameters: Mapping[str, Any]) -> Iterator[None]:
    """Note start and end of a stage's work: the log counts what was really done, which a cache hit is not."""
    context: Context = parameters["context"]
    work = parameters.get("work", {})
    item = " ".join(filter(None, (work.get("workload"), work.get("side") or parameters.get("side"))))
    log = Store(Path(context["store"])).execution_log(context["run_id"])
    entry = {"stage": stage, "item": item, "pid": os.getpid()}
    append_log(log, {"event": "started", **entry, "at_s": time.time()})
    kill_point(f"in:{stage}")
    yield
    append_log(log, {"event": "finished", **entry, "at_s": time.time()})


def _refs(values: Mapping[str, Any]) -> Iterator[Ref]:
    yield from values.values()


def _is_io_failure(_: object, __: object, state: Any) -> bool:
    """Only what may pass by itself is tried again: a wrong input stays wrong."""
    return isinstance(state.result(raise_on_failure=False), OSError)
