"""How a job reaches a cluster: the documented commands, from a folder that is not the project.

Only who knows the cluster's secret can use it, and other users cannot learn it.

The workers' Python has pyspark and pyarrow and nothing else: the package must have been sent.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from spark_connector_tests.query_process import QueryProcess, wait_until
from tests.faults.spare_driver import PROJECT, SECONDS, without_zip
from tests.versions.environments import NEWEST, lean_python
from tutorial_pkg.session.java import find_java
from workbook.cluster import Cluster

JOB = Path(__file__).with_name("submitted.py")
LINES = 1_000
RAN = [f"lines {LINES} {LINES}"]


@pytest.fixture
def environment(cluster: Cluster) -> dict[str, str]:
    """The documented variables; only the driver finds the package without them."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {
        **inherited,
        **without_zip(),  # the workers' Python has its own PySpark
        "MASTER": cluster.url,
        "SPARK_CONF_DIR": str(cluster.conf),
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": str(lean_python(NEWEST)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": ":".join(paths),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared" / "in").mkdir(parents=True)
    text = "".join(f"line {number}\n" for number in range(LINES))
    (tmp_path / "shared" / "in" / "lines.txt").write_text(text)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def run(folder: Path, environment: dict[str, str], *words: object) -> list[str]:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout.splitlines()[-2:]


def started_by_python(folder: Path, environment: dict[str, str], *settings: str) -> list[str]:
    master = f"spark.master={environment['MASTER']}"
    words = (JOB, folder / "shared", "ours", master, "spark.executor.memory=512m")
    environment = {**environment, "PACKAGE_HOME": str(PROJECT)}
    return run(folder, environment, sys.executable, *words, *settings)


def test_package_ships_itself(folder: Path, environment: dict[str, str]) -> None:
    assert started_by_python(folder, environment) == ["imported from the zip", *RAN]


@pytest.mark.soak
def test_own_session_gets_the_package_as_a_zip(folder: Path, environment: dict[str, str]) -> None:
    commands = re.findall(r"```sh\n(.*?)```", (PROJECT / "docs/cluster.md").read_text(), re.S)
    (both,) = [command for command in commands if "zipfile" in command]
    both = both.replace("tutorial_pkg.zip", f"{folder}/tutorial_pkg.zip")
    make, submit = both.strip().splitlines()
    subprocess.run(["bash", "-c", make], check=True, cwd=PROJECT, env=environment)
    job = f"--conf spark.executor.memory=512m {JOB} {folder}/shared own"
    told = run(folder, environment, "bash", "-c", submit.replace("my_job.py", job))
    assert told == ["imported from the zip", *RAN]


# ---- Who may -----------------------------------------------------------------------------------

SESSION = """
import sys
from tutorial_pkg import start_spark
start_spark("uninvited", **{"spark.master": sys.argv[1]})
"""
REFUSED = "Expected SaslMessage"  # what Spark's master says of a client without the secret


def test_session_without_the_secret_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    script, log = tmp_path / "uninvited.py", cluster.folder / "master.log"
    script.write_text(SESSION)
    with QueryProcess(script, cluster.url, output=tmp_path / "uninvited.log"):
        wait_until(lambda: REFUSED in log.read_text(errors="replace"), SECONDS, "a refusal")
        with urllib.request.urlopen(f"{cluster.ui}/json/") as answer:
            state = json.load(answer)
    names = {app["name"] for app in state["activeapps"] + state["completedapps"]}
    assert "uninvited" not in names


def test_secret_is_in_a_private_file_only(cluster: Cluster) -> None:
    file = cluster.conf / "spark-defaults.conf"
    assert file.stat().st_mode & 0o777 == 0o600
    assert cluster.conf.stat().st_mode & 0o777 == 0o700
    secret = cluster.settings["spark.authenticate.secret"]
    assert secret in file.read_text()
    running = psutil.process_iter(["cmdline"])
    assert not [p.pid for p in running if secret in " ".join(p.info["cmdline"] or [])]
