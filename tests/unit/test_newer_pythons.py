"""The package uses nothing that a newer Python has taken away, though only one may be here.

mypy knows what the standard library had in each version: modules, functions, and their parameters.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEWEST = "3.14"


def mypy(folder: Path, *what: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--python-version",
        NEWEST,
        "--cache-dir",
        folder,
        *what,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.soak
def test_no_removed_python_module_is_used(tmp_path: Path) -> None:
    gone = tmp_path / "gone.py"
    gone.write_text("import asyncore\nimport ast\nimport pkgutil\nast.Str\npkgutil.find_loader\n")
    noticed = mypy(tmp_path, "--config-file=", str(gone)).stdout
    assert [word for word in ("asyncore", "Str", "find_loader") if word not in noticed] == []
    found = mypy(tmp_path)
    assert found.returncode == 0, found.stdout
