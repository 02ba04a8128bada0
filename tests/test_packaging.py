"""The lock, the declared ranges and the installed environment say the same thing."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).resolve().parent.parent


def locked() -> dict[str, str]:
    """Name -> version of every line of the lock."""
    lines = (REPO / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): pin for name, pin in pairs}


def declared() -> list[Requirement]:
    """Every requirement of the project, extras included."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(text) for group in (project["dependencies"], *extras) for text in group]


def test_every_declared_dependency_is_locked_within_its_range() -> None:
    lock = locked()
    for requirement in declared():
        pin = lock.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in requirements.lock: run make lock"
        assert requirement.specifier.contains(pin), f"{requirement} but locked {pin}: run make lock"


def test_every_declared_dependency_has_a_lower_and_an_upper_bound() -> None:
    for requirement in declared():
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators == {">=", "<"}, f"{requirement} needs a lower and an upper bound"


def test_the_lock_holds_exact_versions_and_nothing_else() -> None:
    for line in (REPO / "requirements.lock").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line


def test_the_environment_holds_the_locked_versions() -> None:
    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "nothing"

    wrong = {name: (pin, installed(name)) for name, pin in locked().items() if installed(name) != pin}
    assert not wrong, f"locked and installed versions differ (run make setup): {wrong}"
