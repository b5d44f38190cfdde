"""The README's examples do what the page says: from an installed wheel, and after a restart."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tutorial_pkg
from tutorial_pkg import network_status
from tutorial_pkg.processes.query_process import QueryProcess, wait_until

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "cpu_log.csv"
INSTALL = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")


def example(word: str) -> str:
    """The README's only Python example with this word."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (found,) = [block for block in blocks if word in block]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the project, because a build leaves folders behind."""
    project = tmp_path_factory.mktemp("wheel") / "project"
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(".*", "__pycache__", "notebooks"))
    build = [sys.executable, "-m", "pip", "wheel", *INSTALL, "--no-build-isolation", "."]
    subprocess.run(build, cwd=project, check=True, timeout=300)
    (built,) = project.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel, and with the dependencies of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", *INSTALL, wheel]
    subprocess.run(install, check=True, timeout=300)
    # Python adds the folder and skips the .pth files in it, so the editable install stays unseen.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.name.startswith(f"tutorial_pkg-{tutorial_pkg.__version__}-")
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    inside = {name for name in names if name.parts[0] == "tutorial_pkg"}
    assert {name.parts[0] for name in names if name not in inside} == {
        f"tutorial_pkg-{tutorial_pkg.__version__}.dist-info"
    }
    sources = {path.relative_to(ROOT) for path in (ROOT / "tutorial_pkg").rglob("*.py")}
    assert inside == {*sources, Path("tutorial_pkg/py.typed")}


def test_the_first_example_runs_from_the_wheel(
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


def items_in(cpu_log: Path) -> Counter[str]:
    """What follows the time and the CPU load in each line of the log."""
    lines = [line for file in cpu_log.glob("*.csv") for line in file.read_text().splitlines()]
    return Counter(line.split(",", 2)[-1] for line in lines)


def test_the_counter_counts_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
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
