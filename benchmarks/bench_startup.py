"""How long from the start of Python to the first row of a stream, and what each setting gives.

    python benchmarks/bench_startup.py [--rounds 3] [--all]

Each variant is a process of its own; the variants take turns, after a round that does not count.
The first row comes from Spark's `rate`, and in a second comparison from `file_lines`, for which
Spark starts six Python processes: with the PySpark of Spark's zip, which each of them compiles, and
with the one that is installed. `--all` adds what lies between Spark as it comes and
`start_spark()`, each with all that the ones before it have, and what was tried and not taken.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pyspark
from measure import ROUNDS, Result, Series, Watch, finish, in_turns

from tutorial_pkg.session.class_archive import make_archive
from tutorial_pkg.session.java import archive_path, find_java

PLAIN = {"spark.ui.enabled": "true"}
LEAN = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
}
NO_UI = {"spark.ui.enabled": "false"}
FAST_LAUNCHER = {"launcher": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

AS_IT_COMES, START_SPARK = "Spark as it comes", "start_spark()"
SESSION, FIRST_ROW = "process start to session", "process start to first row"
FROM_PYTHON = "process start to first row of file_lines"
FROM_ZIP = "start_spark(), PySpark from Spark's zip"


def java(*options: str) -> dict[str, str]:
    return {"spark.driver.extraJavaOptions": " ".join(options)}


def variants() -> dict[str, dict[str, str]]:
    archive = f'-XX:SharedArchiveFile="{archive_path(find_java())}"'
    serial, client = "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"
    return {
        AS_IT_COMES: PLAIN,
        "in-memory catalog, 2 shuffle partitions, loopback": LEAN,
        "a launcher that does not warm up": LEAN | FAST_LAUNCHER,
        "the parallel collector": LEAN | FAST_LAUNCHER | java("-XX:+UseParallelGC"),
        "the serial collector": LEAN | FAST_LAUNCHER | java(serial),
        START_SPARK: {"start_spark": "yes"},  # the serial collector and an archive of classes
        "only the first compiler": LEAN | FAST_LAUNCHER | java(serial, archive, client),
        "no UI": LEAN | FAST_LAUNCHER | NO_UI | java(serial, archive),
    }


MEASURED = """
import time; began = time.time()
import json, os, sys
settings = json.loads(sys.argv[1])
if settings.pop("start_spark", None):
    import contextlib
    from tutorial_pkg import start_spark
    with contextlib.redirect_stdout(None):
        spark = start_spark()
else:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
    os.environ["PYSPARK_PYTHON"] = sys.executable
    launcher = settings.pop("launcher", None)
    if launcher:
        os.environ["SPARK_LAUNCHER_OPTS"] = launcher
    conf = SparkConf(loadDefaults=False).setMaster("local[2]").setAll(settings.items())
    with open(os.devnull, "w") as nowhere:
        gateway = launch_gateway(conf, popen_kwargs={"stdout": nowhere, "stderr": nowhere})
    spark = SparkSession(SparkContext(gateway=gateway, conf=conf))
session = time.time()
if folder := settings.pop("folder", None):
    rows = spark.readStream.format("file_lines").load(folder)
else:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
query = rows.writeStream.format("memory").queryName("rows").start()
while not any(batch["numInputRows"] for batch in query.recentProgress):
    time.sleep(0.01)
first_row = time.time()
query.stop()
print(json.dumps([session - began, first_row - began]))
"""


def measure(settings: dict[str, str], **env: str) -> list[float]:
    """Seconds to the session, and to the first row."""
    command = [sys.executable, "-c", MEASURED, json.dumps(settings)]
    env = {**os.environ, **env}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def from_python(rounds: int) -> list[Series]:
    """A home that is named is left as it is: that brings the zip back."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lines.txt").write_text("a line\n" * 100)
        settings = {"start_spark": "yes", "folder": folder}
        home = str(Path(pyspark.__file__).parent)
        runs = {
            FROM_ZIP: partial(measure, settings, SPARK_HOME=home),
            START_SPARK: partial(measure, settings),
        }
        found = in_turns(runs, rounds)
    rows = {name: [row for _, row in pairs] for name, pairs in found.items()}
    return [
        Series(FROM_PYTHON, FROM_ZIP, 1, rows[FROM_ZIP]),
        Series(FROM_PYTHON, START_SPARK, 1, rows[START_SPARK], FROM_ZIP),
    ]


def measure_all(chosen: dict[str, dict[str, str]], rounds: int) -> list[Series]:
    runs = {name: partial(measure, settings) for name, settings in chosen.items()}
    found = in_turns(runs, rounds)
    base = next(iter(chosen))
    return [
        Series(group, name, 1, [run[at] for run in runs], None if name == base else base)
        for at, group in enumerate((SESSION, FIRST_ROW))
        for name, runs in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--all", action="store_true", help="also single settings")
    parser.add_argument("--json", type=Path, help="write the result there, too")
    given = parser.parse_args()
    make_archive()
    chosen = {n: v for n, v in variants().items() if given.all or n in (AS_IT_COMES, START_SPARK)}
    with Watch("start-up") as watch:
        series = measure_all(chosen, given.rounds) + from_python(given.rounds)
    finish(given, Result("Start-up", series), watch)


if __name__ == "__main__":
    main()
