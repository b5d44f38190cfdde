"""The package uses nothing that a newer Python has removed, though only one may be installed here.

mypy knows what the standard library had in each version: modules, functions, and their parameters.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NEWEST = "3.14"


@pytest.mark.soak
def test_no_removed_python_module_is_used(tmp_path: Path) -> None:
    words = ["-m", "mypy", "--python-version", NEWEST, "--cache-dir", str(tmp_path)]
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
