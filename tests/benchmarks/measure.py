"""Runs a command as a whole process and measures it from outside: wall seconds and peak memory of its process tree."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

TILEGATE = [str(Path(sys.executable).with_name("tilegate"))]
SAMPLE_S = 0.02


@dataclass(frozen=True, slots=True)
class Measured:
    """seconds: wall time. peak_mib: most resident memory of the whole tree at one sample (every 20 ms), MiB."""

    exit_code: int
    seconds: float
    peak_mib: float
    stdout: str
    stderr: str


def measure(command: list[str], *, env: dict[str, str] | None = None, cwd: Path | None = None) -> Measured:
    """Run `command` to its end. Never raises on a non-zero exit: the caller says which codes it expects."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=cwd
    )  # fmt: skip
    peak_bytes = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak_bytes
        while not done.wait(SAMPLE_S):
            peak_bytes = max(peak_bytes, _tree_bytes(process.pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    stdout, stderr = process.communicate()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return Measured(process.returncode, seconds, peak_bytes / 2**20, stdout, stderr)


def _tree_bytes(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        return sum(_resident_bytes(process) for process in (root, *root.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
