"""The kit's distribution examines other people's sources without our package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.versions.environments import (
    NEWEST,
    OLDER,
    PIP,
    ROOT,
    examined_by_the_kit,
    install,
    kit_python,
    link,
)
from tutorial_pkg.session.java import find_java


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


@pytest.mark.soak
def test_page_takes_a_connector_to_an_installed_wheel(tmp_path: Path) -> None:
    """The files of `docs/your_connector.md` work as they are, with the oldest Spark."""
    python = kit_python(OLDER[0], tmp_path / "environment")
    link(python, "pytest", "py.py", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
    page = (ROOT / "docs" / "your_connector.md").read_text()
    project, elsewhere = tmp_path / "inbox", tmp_path / "elsewhere"
    for name, text in re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)```", page, re.S | re.M):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": str(python)}

    def run(*command: object, cwd: Path = project) -> str:
        texts, told = [*map(str, command)], subprocess.PIPE
        return subprocess.run(
            texts, cwd=cwd, env=environment, stdout=told, text=True, check=True
        ).stdout

    only = ("--only", "every_row_once", "restart")
    assert "2 kept" in run(python, "-m", "spark_connector_tests", "describe_inbox:inbox", *only)
    assert "1 passed" in run(python, "-m", "pytest", "-q", "-k", "every_row_once")
    build = ("--no-deps", "--no-build-isolation", "--wheel-dir", elsewhere)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", *build, ".")
    install(python, "--no-deps", "--no-index", *elsewhere.glob("*.whl"))
    (project / "use_inbox.py").rename(elsewhere / "use_inbox.py")
    (elsewhere / "letters").mkdir()
    (elsewhere / "letters" / "a.txt").write_text("1\n2\n39\n")
    assert "|        42|" in run(python, "use_inbox.py", "letters", "state", cwd=elsewhere)
