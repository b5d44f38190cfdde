"""Check this machine: one line per check, with the fix where something is wrong."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from tutorial_pkg.core.places import project_dir, work_dir
from tutorial_pkg.core.ports import is_free
from tutorial_pkg.core.waiting import wait_for

PORTS = range(11000, 11004)
NEEDED_BYTES = 1 << 30
STREAM_SECONDS = 60


class CheckFailed(Exception):
    """A check failed; the message names the problem and the fix."""


def examine(quick: bool = False) -> int:
    """Run all checks and print a line for each. Return 1 if one failed, else 0.

    `quick` leaves out the streaming query, which takes some seconds.
    """
    checks = [_python, _java, _package("pyspark", (4, 0), (4, 4)), _package("pyarrow", (18, 0))]
    checks += [_disk, _ports]
    if not quick:
        checks.append(_stream)
    return max([_report(check) for check in checks])


def _report(check: Callable[[], str]) -> int:
    try:
        print(f"✓ {check()}", flush=True)
    except CheckFailed as problem:
        print(f"✗ {problem}", flush=True)
        return 1
    return 0


def _python() -> str:
    environment = os.path.relpath(sys.prefix, project_dir())
    where = sys.prefix if environment.startswith("..") else environment
    return f"Python {platform.python_version()} in {where}"


def _java() -> str:
    # Checks import what they need, so that a missing package fails one check, not all.
    try:
        from tutorial_pkg.session.java import JavaNotFoundError, find_java
    except ImportError as error:
        raise CheckFailed(f"Java: cannot look for it ({error})") from None
    try:
        java = find_java()
    except JavaNotFoundError as error:
        raise CheckFailed(f"Java: {error}") from None
    return f"Java {java.release}, found by {java.found_by}"


def _package(
    name: str, lowest: tuple[int, int], below: tuple[int, int] = (9999, 0)
) -> Callable[[], str]:
    def check() -> str:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise CheckFailed(f"{name} is not installed. Run `make lab`.") from None
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if not lowest <= numbers < below:
            raise CheckFailed(
                f"{name} {version} does not work here; expected {'.'.join(map(str, lowest))} or "
                "later. Remove .venv and run `make lab`."
            )
        return f"{name} {version}"

    return check


def _disk() -> str:
    try:
        folder = work_dir()
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"written")
    except OSError as error:
        raise CheckFailed(f"disk: cannot write to .work ({error.strerror})") from None
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise CheckFailed(f"disk: {free >> 20} MiB free; make room, 1 GiB is needed")
    return f"disk: .work is writable, {free >> 30} GiB free"


def _ports() -> str:
    """A busy port is no failure: the notebooks take other ones."""
    busy = ", ".join(str(port) for port in PORTS if not is_free(port))
    if busy:
        return f"ports: {busy} in use, perhaps by another notebook; lessons take other ports"
    return f"ports {PORTS[0]}–{PORTS[-1]} are free"


def _stream() -> str:
    """Run a real query, from the session's start to rows in a table."""
    try:
        from tutorial_pkg.core.errors import last_error
        from tutorial_pkg.session.start import start_spark, stop_spark

        start = time.monotonic()
        with contextlib.redirect_stdout(None):
            spark = start_spark("doctor")
        rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        query = rows.writeStream.format("memory").queryName("doctor").start()
        count_rows = spark.table("doctor").count
        wait_for(lambda: count_rows() or not query.isActive, STREAM_SECONDS)
        if not count_rows():
            raise CheckFailed(f"stream: no row in {STREAM_SECONDS} s. {last_error(query) or ''}")
        seconds = time.monotonic() - start
        query.stop()
        stop_spark(spark)
    except (ImportError, RuntimeError) as error:
        raise CheckFailed(f"stream: {error}. See .work/logs.") from None
    return f"stream: first rows of a Spark query after {seconds:.1f} s"
