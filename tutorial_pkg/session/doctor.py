"""Check this machine: one line per check, with the fix where something is wrong."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shutil
import sys
import tempfile
import time

from tutorial_pkg.core.places import is_free, work_dir
from tutorial_pkg.core.waiting import wait_until

PORTS = range(11000, 11004)
STREAM_SECONDS = 60


def examine(quick: bool = False) -> int:
    """Run all checks and print a line for each. Return 1 if one failed, else 0.

    `quick` leaves out the streaming query, which takes some seconds.
    """
    checks = [check_python, check_java, check_packages, check_disk, check_ports]
    failed = 0
    for check in checks if quick else [*checks, check_stream]:
        try:
            print(f"✓ {check()}", flush=True)
        except Exception as problem:
            print(f"✗ {check.__name__.removeprefix('check_')}: {problem}", flush=True)
            failed = 1
    return failed


def check_python() -> str:
    return f"Python {platform.python_version()} in {sys.prefix}"


def check_java() -> str:
    from tutorial_pkg.session.java import find_java  # imports Spark, which may be missing

    java = find_java()
    return f"Java {java.release}, found by {java.found_by}"


def check_packages() -> str:
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("pyspark", "pyarrow"))
    return ", ".join(versions)


def check_disk() -> str:
    folder = work_dir()
    tempfile.TemporaryFile(dir=folder).close()
    free = shutil.disk_usage(folder).free >> 30
    if not free:
        raise RuntimeError("make room: 1 GiB is needed")
    return f"disk: .work is writable, {free} GiB free"


def check_ports() -> str:
    busy = ", ".join(str(port) for port in PORTS if not is_free(port))
    if busy:
        return f"ports: {busy} in use, perhaps by another notebook; lessons use other ports then"
    return f"ports {PORTS[0]}–{PORTS[-1]} are free"


def check_stream() -> str:
    """Run a real query, from the session's start to rows in a table."""
    from tutorial_pkg.session.start import start_spark, stop_spark

    start = time.monotonic()
    with contextlib.redirect_stdout(None):
        spark = start_spark("doctor")
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    query = rows.writeStream.format("memory").queryName("doctor").start()
    wait_until(spark.table("doctor").count, STREAM_SECONDS, "a row of a query (see .work/logs)")
    seconds = time.monotonic() - start
    query.stop()
    stop_spark(spark)
    return f"stream: first rows of a Spark query after {seconds:.1f} s"
