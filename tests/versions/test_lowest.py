"""The extras work with the lowest versions that they allow."""

from __future__ import annotations

import subprocess

import pytest

from tests.versions.environments import ROOT, lowest_python


@pytest.mark.soak
def test_lowest_versions_of_the_extras() -> None:
    parts = [f"unit/{room}" for room in ("builder", "core", "objects", "observe", "postgres")]
    tests = [f"tests/{part}" for part in ("services", *parts)]
    command = (lowest_python(), "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope")
    done = subprocess.run([*map(str, command), *tests], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-10_000:]
