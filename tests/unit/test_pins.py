"""pyproject.toml, the lock file and environment.yml must say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tutorial_pkg.session.java import SUPPORTED

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if not line.startswith("#")
]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
VERSIONS = dict(entry.split("=") for entry in CONDA if isinstance(entry, str) and "=" in entry)
PIP = next(entry["pip"] for entry in CONDA if isinstance(entry, dict))


def declared() -> list[Requirement]:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    found = [Requirement(text) for group in groups for text in group]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def pinned(name: str, python: str | None = None) -> set[str]:
    """The versions the lock file gives: more than one where those for some Pythons differ."""
    pins = [pin for pin in LOCK if pin.name == name]
    if python:
        here = {"python_full_version": f"{python}.0", "python_version": python}
        pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
    return {str(pin.specifier).removeprefix("==") for pin in pins}


def test_the_lock_file_pins_every_dependency_as_declared() -> None:
    for requirement in declared():
        versions = pinned(requirement.name)
        assert versions, f"{requirement.name} is not in requirements.lock: run `make lock`"
        for version in versions:
            assert requirement.specifier.contains(version), f"{requirement} is locked at {version}"


def test_every_line_of_the_lock_file_is_an_exact_pin_without_an_address() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    assert all(re.fullmatch(r"==[^,*]+", str(pin.specifier)) for pin in LOCK)


def test_the_conda_environment_has_the_same_pins_and_nothing_is_missing() -> None:
    pins = {Requirement(line) for line in PIP if not line.startswith("-")}
    assert {pin.name for pin in pins} == {requirement.name for requirement in declared()}
    for pin in pins:
        assert {str(pin.specifier).removeprefix("==")} == pinned(pin.name, VERSIONS["python"]), pin
    assert "--constraint requirements.lock" in PIP
    assert "--editable ." in PIP


def test_the_conda_environment_has_a_python_and_a_java_that_work() -> None:
    assert SpecifierSet(PROJECT["requires-python"]).contains(Version(VERSIONS["python"]))
    assert int(VERSIONS["openjdk"]) in SUPPORTED
