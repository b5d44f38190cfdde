"""The README's examples do what the page says: from an installed wheel, and after a restart."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tutorial_pkg
from spark_connector_tests.query_process import QueryProcess, wait_until
from tests.faults.log_account import items_in
from tests.versions.environments import NEWEST, OLDER, built_wheel, environment_like, lean_python
from tutorial_pkg import network_status

ROOT = Path(__file__).parents[2]
PACKED = {".py", ".typed", ".json", ".js", ".css"}
DATA = ROOT / "data" / "cpu_log.csv"


def example(word: str, page: str = "README.md") -> str:
    """A page's only Python example with this word."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    (found,) = [block for block in blocks if word in block]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel") / "project")


@pytest.fixture(
    scope="module",
    params=[pytest.param(version, marks=pytest.mark.soak) for version in (NEWEST, OLDER[0])],
    ids="spark-{}".format,
)
def python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory) -> Path:
    """The Python of a new environment with the wheel, pyspark and pyarrow, and nothing else."""
    lean = lean_python(request.param)
    return environment_like(lean, tmp_path_factory.mktemp("lean") / request.param, wheel)


def test_wheel_needs_only_pyspark_and_pyarrow(python: Path) -> None:
    check = [sys.executable, "-m", "pip", "--python", python, "check"]
    subprocess.run(check, check=True, timeout=60)
    listing = [*check[:-1], "list", "--format", "json"]
    listed = json.loads(subprocess.run(listing, check=True, capture_output=True).stdout)
    assert {entry["name"] for entry in listed} == {"py4j", "pyarrow", "pyspark", "tutorial_pkg"}


def test_wheel_has_only_the_package(wheel: Path) -> None:
    assert wheel.name.startswith(f"tutorial_pkg-{tutorial_pkg.__version__}-")
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    inside = {name for name in names if name.parts[0] == "tutorial_pkg"}
    assert {name.parts[0] for name in names if name not in inside} == {
        f"tutorial_pkg-{tutorial_pkg.__version__}.dist-info"
    }
    files = [path for path in (ROOT / "tutorial_pkg").rglob("*") if path.is_file()]
    assert inside == {path.relative_to(ROOT) for path in files if path.suffix in PACKED}


def test_first_example_runs_from_the_wheel(
    python: Path, tmp_path: Path, free_ports: Callable[[int], int]
) -> None:
    port, job, launcher = free_ports(1), tmp_path / "job.py", tmp_path / "launcher.py"
    job.write_text(example("network_lines").replace("11000", str(port)))
    command = [str(python), job.name]
    launcher.write_text(
        f"import os; os.chdir({str(tmp_path)!r}); os.execv({command[0]!r}, {command})"
    )
    with QueryProcess(launcher, output=tmp_path / "output") as query:

        def listening() -> bool:
            assert query.running, query.output.read_text()
            return network_status(tmp_path / "var" / "network-log").listening

        wait_until(listening, 120, "listening")
        send = [python, "-m", "tutorial_pkg", "send", DATA, "--port", str(port)]
        subprocess.run(send, cwd=tmp_path, check=True, timeout=60)
        sent = Counter(DATA.read_text().splitlines())
        wait_until(lambda: items_in(tmp_path / "var" / "cpu-log") == sent, 120, "all lines logged")


def test_counter_resumes_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    names = {"__name__": "readme"}
    exec(example("SourceBuilder").replace("var/", f"{tmp_path}/var/"), names)
    for wanted in (2_000, 5_000):
        writer = names["numbers"].writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
            str(tmp_path / "out")
        )
        while sum(batch.numInputRows for batch in query.recentProgress) < wanted:
            assert query.isActive, query.exception()
            query.awaitTermination(1)
        query.stop()
    numbers = [row.number for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert len(numbers) > 5_000
    assert sorted(numbers) == list(range(len(numbers)))
