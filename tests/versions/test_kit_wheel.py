"""The kit's distribution examines other people's sources without our package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.versions.environments import NEWEST, OLDER, PIP, examined_by_the_kit, kit_python


@pytest.mark.soak
@pytest.mark.parametrize("version", [OLDER[0], NEWEST])
def test_kit_alone_examines_a_source(version: str, tmp_path: Path) -> None:
    python = kit_python(version, tmp_path / "environment")
    subprocess.run([*PIP, python, "check"], check=True, timeout=60)
    listing = [*PIP, python, "list", "--format", "json"]
    listed = json.loads(subprocess.run(listing, check=True, capture_output=True).stdout)
    needs = {"py4j", "pyarrow", "pyspark", "psutil"}
    assert {entry["name"] for entry in listed} == {*needs, "spark-connector-tests"}
    without = subprocess.run([python, "-c", "import tutorial_pkg"], cwd="/", capture_output=True)
    assert b"No module named 'tutorial_pkg'" in without.stderr
    marks = {"same_rows_again": "✗", "values": "–"}
    assert examined_by_the_kit(python, "fake", "--only", *marks) == marks
    # Drivers that are killed get their sessions from the platform, too.
    assert examined_by_the_kit(python, "counting", "--only", "killed") == {"killed": "✓"}
