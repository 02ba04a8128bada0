"""Where the stages of a run go: threads of this process, processes of this machine, or a cluster of Dask or Ray.

Chosen by environment, for it changes where work is done and never what comes out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from prefect.task_runners import ProcessPoolTaskRunner, ThreadPoolTaskRunner

from flows.workers import refused, workers_of

RUNNER_VARIABLE = "TILEGATE_RUNNER"
_CLUSTERS = {"dask": ("prefect_dask", "DaskTaskRunner"), "ray": ("prefect_ray", "RayTaskRunner")}
_NAMES = ("threads", "processes", *_CLUSTERS)


def task_runner(environment: Mapping[str, str] = os.environ) -> Any:
    """The task runner that the environment asks for; threads where it asks for none.

    Replications of one side are threads inside its stage under every runner: the engine releases Python's lock.
    """
    name, workers = environment.get(RUNNER_VARIABLE, "threads"), workers_of(environment)
    if name == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    if name == "processes":
        return ProcessPoolTaskRunner(max_workers=workers)
    if name not in _CLUSTERS:
        raise refused(RUNNER_VARIABLE, f"one of {', '.join(_NAMES)}", repr(name), "Correct or unset it.")
    package, runner = _CLUSTERS[name]
    if find_spec(package) is None:
        remedy = f"Install {package.replace('_', '-')}, or use {RUNNER_VARIABLE}=processes."
        raise refused(RUNNER_VARIABLE, f"the package {package}", "none installed", remedy)
    return getattr(import_module(package), runner)()
