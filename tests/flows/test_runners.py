"""Where stages go is chosen by environment; what cannot be is refused with the remedy."""

from __future__ import annotations

from inspect import signature
from typing import Any

import cloudpickle
import pytest
from prefect.task_runners import ProcessPoolTaskRunner, ThreadPoolTaskRunner
from prefect.tasks import Task

from flows.runners import task_runner
from flows.tasks.ingress import ingress
from flows.tasks.quality import quality
from flows.tasks.scheduling import scheduling
from flows.tasks.trials import trials
from flows.workers import workers_of
from schemas.errors import DocumentError


def test_threads_are_the_default_and_processes_a_choice() -> None:
    assert isinstance(task_runner({}), ThreadPoolTaskRunner)
    assert isinstance(task_runner({"TILEGATE_RUNNER": "processes", "TILEGATE_WORKERS": "3"}), ProcessPoolTaskRunner)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_cluster_that_is_not_installed_is_refused_with_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.runners.find_spec", lambda package: None)
    with pytest.raises(DocumentError, match=f"Install prefect-{name}"):
        task_runner({"TILEGATE_RUNNER": name})


def test_a_runner_that_nobody_knows_is_refused() -> None:
    with pytest.raises(DocumentError, match="threads, processes, dask, ray"):
        task_runner({"TILEGATE_RUNNER": "slurm"})


@pytest.mark.parametrize("said", ["0", "-1", "two", "", "5000", "²"])
def test_workers_are_a_sensible_whole_number(said: str) -> None:
    assert workers_of({}) == 2
    with pytest.raises(DocumentError, match="from 1 to 1024"):
        workers_of({"TILEGATE_WORKERS": said})


@pytest.mark.parametrize("task", [ingress, scheduling, quality, trials], ids=lambda task: task.name)
def test_what_a_stage_does_travels_to_another_process_by_name(task: Task[..., Any]) -> None:
    carried = cloudpickle.loads(cloudpickle.dumps(task.fn))
    assert signature(carried) == signature(task.fn)
    with pytest.raises(TypeError, match="missing a required argument"):
        carried()  # it found its body, which asks for what it is given
