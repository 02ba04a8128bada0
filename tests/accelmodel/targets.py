"""Targets that tests share."""

import yaml

from accelmodel.importers.target import read_target, target_path
from accelmodel.target import Target


def bundled(name: str) -> Target:
    return read_target(yaml.safe_load(target_path(name).read_text(encoding="utf-8")))
