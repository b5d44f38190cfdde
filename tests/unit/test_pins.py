"""The lock file pins every dependency that pyproject.toml declares."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if not line.startswith("#")
]


def test_lock_pins_every_dependency() -> None:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = [Requirement(text) for group in groups for text in group]
    for requirement in declared:
        pins = [pin.specifier for pin in LOCK if pin.name == requirement.name]
        versions = [str(pin).removeprefix("==") for pin in pins]
        if requirement.name != PROJECT["name"]:
            assert versions, f"{requirement.name} is not in requirements.lock: run `make lock`"
            assert all(map(requirement.specifier.contains, versions)), requirement


def test_lock_has_exact_pins_and_no_address() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()
    assert all(re.fullmatch(r"==[^,*]+", str(pin.specifier)) for pin in LOCK)
