"""How long from the start of Python to the first row of a stream, and what each setting gives.

    python benchmarks/bench_startup.py [ROUNDS]

Each variant is a process of its own; the variants take turns, so that a busy moment of the machine
meets them all. The table shows medians of seconds and the least and most of the last column.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from tutorial_pkg.class_archive import archive_path, make_archive
from tutorial_pkg.java import find_java

PLAIN = {"spark.ui.enabled": "true"}
LEAN = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
}
NO_UI = {"spark.ui.enabled": "false"}
FAST_LAUNCHER = {"launcher": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def java(*options: str) -> dict[str, str]:
    return {"spark.driver.extraJavaOptions": " ".join(options)}


def variants() -> dict[str, dict[str, str]]:
    archive = f'-XX:SharedArchiveFile="{archive_path(find_java())}"'
    serial, client = "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"
    return {
        "Spark as it comes": PLAIN,
        "in-memory catalog, 2 shuffle partitions, loopback": LEAN,
        "… and no UI": LEAN | NO_UI,
        "… and a launcher that does not warm up": LEAN | NO_UI | FAST_LAUNCHER,
        "… and the serial collector": LEAN | NO_UI | FAST_LAUNCHER | java(serial),
        "… and the parallel collector instead": (
            LEAN | NO_UI | FAST_LAUNCHER | java("-XX:+UseParallelGC")
        ),
        "… serial, and only the first compiler": (
            LEAN | NO_UI | FAST_LAUNCHER | java(serial, client)
        ),
        "… serial, and the class archive": LEAN | NO_UI | FAST_LAUNCHER | java(serial, archive),
        "… serial, archive, first compiler only": (
            LEAN | NO_UI | FAST_LAUNCHER | java(serial, archive, client)
        ),
        "start_spark(): serial, archive, with UI": {"start_spark": "yes"},
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
rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
query = rows.writeStream.format("memory").queryName("rows").start()
while not any(batch["numInputRows"] for batch in query.recentProgress):
    time.sleep(0.01)
first_row = time.time()
query.stop()
print(json.dumps([session - began, first_row - began]))
"""


def measure(settings: dict[str, str]) -> list[float]:
    command = [sys.executable, "-c", MEASURED, json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def main(rounds: int) -> None:
    make_archive()
    seconds: dict[str, list[list[float]]] = {name: [] for name in variants()}
    for _ in range(rounds):
        for name, settings in variants().items():
            seconds[name].append(measure(settings))
    print("| variant | session | first row | least – most |")
    print("|---|---|---|---|")
    for name, runs in seconds.items():
        session, first = (statistics.median(run[i] for run in runs) for i in range(2))
        spread = [run[1] for run in runs]
        print(f"| {name} | {session:.1f} | {first:.1f} | {min(spread):.1f} – {max(spread):.1f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
