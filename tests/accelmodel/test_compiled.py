"""Compiled code is kept between runs, and no longer than any source that it was made of."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import accelmodel

RUN = """
from accelmodel.replay.tree import lowest, new_trees, set_key
tree = new_trees(1, 4)[0]
set_key(tree, 2, 7)
print(lowest(tree), sum(lowest.stats.cache_hits.values()), sum(lowest.stats.cache_misses.values()))
"""


def answer(room: Path) -> list[int]:
    ran = subprocess.run([sys.executable, "-c", RUN], cwd=room, capture_output=True, text=True, check=True)
    return [int(word) for word in ran.stdout.split()]


def test_kept_code_goes_when_any_source_that_it_may_hold_changes(tmp_path: Path) -> None:
    source, room = Path(accelmodel.__file__).parent, tmp_path / "accelmodel"
    shutil.copytree(source, room, ignore=shutil.ignore_patterns("__pycache__"))

    assert answer(tmp_path) == [2, 0, 1]
    assert answer(tmp_path) == [2, 1, 0]
    other = room / "replay" / "heap.py"
    other.write_text(other.read_text() + "\n# changed\n")
    os.utime(other, ns=(1, 1))
    assert answer(tmp_path) == [2, 0, 1]
