"""Check this machine: one line per check, with the fix where something is wrong.

Each check imports what it needs, so that a missing package fails one check, not all.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.ports import is_free
from tutorial_pkg.core.waiting import wait_until

PORTS = range(11000, 11004)
NEEDED_BYTES = 1 << 30
STREAM_SECONDS = 60
LOWEST = {"pyspark": (4, 0), "pyarrow": (18, 0)}


def examine(quick: bool = False) -> int:
    """Run all checks and print a line for each. Return 1 if one failed, else 0.

    `quick` leaves out the streaming query, which takes some seconds.
    """
    checks = [check_python, check_java, check_packages, check_disk, check_ports]
    if not quick:
        checks.append(check_stream)
    return max([_report(check) for check in checks])


def _report(check: Callable[[], str]) -> int:
    try:
        print(f"✓ {check()}", flush=True)
    except Exception as problem:
        print(f"✗ {check.__name__.removeprefix('check_')}: {problem}", flush=True)
        return 1
    return 0


def check_python() -> str:
    return f"Python {platform.python_version()} in {sys.prefix}"


def check_java() -> str:
    from tutorial_pkg.session.java import find_java

    java = find_java()
    return f"Java {java.release}, found by {java.found_by}"


def check_packages() -> str:
    versions = {name: importlib.metadata.version(name) for name in LOWEST}
    for name, lowest in LOWEST.items():
        numbers = tuple(int(part) for part in versions[name].split(".")[:2])
        if numbers < lowest:
            expected = ".".join(map(str, lowest))
            raise RuntimeError(
                f"{name} is {versions[name]}, expected {expected} or later: remove .venv and run "
                "`make lab`"
            )
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def check_disk() -> str:
    folder = work_dir()
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"written")
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise RuntimeError(f"{free >> 20} MiB free; make room, 1 GiB is needed")
    return f"disk: .work is writable, {free >> 30} GiB free"


def check_ports() -> str:
    """A busy port is no failure: the notebooks take other ones."""
    busy = ", ".join(str(port) for port in PORTS if not is_free(port))
    if busy:
        return f"ports: {busy} in use, perhaps by another notebook; lessons take other ports"
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
