"""What start_spark does beyond one machine: find the master, ship the package, await workers.

Two names that PySpark does not call public are used: `SparkContext._jsc` and `environment`;
`tests/unit/session/test_session_privates.py` notices when they change.
"""

from __future__ import annotations

import os
import re
import socket
import time
import zipfile
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from tutorial_pkg.core.waiting import wait_for
from tutorial_pkg.core.worker import CORES

SHIP = "spark.tutorial_pkg.ship"
ANSWER_SECONDS = 5.0
WORKER_SECONDS = 20.0
SETTLED_SECONDS = 1.0  # workers of one cluster come at almost the same time
PACKAGE = Path(__file__).parents[1]


def check_master(master: str) -> None:
    """Raises `ConnectionError` where no standalone master answers; Spark would try for a minute."""
    addresses = re.findall(r"(?:spark://|,)(?:\[([^\]]+)\]|([^,:\[\]]+)):(\d+)", master)
    tried = [_refusal(six or four, int(port)) for six, four, port in addresses]
    refusals = [text for text in tried if text]
    if addresses and len(refusals) == len(addresses):
        raise ConnectionError(
            f"no Spark master answers at {master!r} ({refusals[0]}): start it, or correct "
            "`spark.master`; the address is on top of its web page"
        )


def _refusal(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


# ---- The package -------------------------------------------------------------------------------


def ships(setting: str) -> bool:
    """Raises `ValueError` for what is neither true nor false."""
    if setting.lower() not in ("true", "false"):
        raise ValueError(f"`{SHIP}` must be true or false, got {setting!r}")
    return setting.lower() == "true"


def ship(context: SparkContext) -> None:
    """Send this package to the workers, which have to know only what it is made of.

    It comes before one that is installed there. A package that was itself shipped, as a zip, is
    sent by whoever did that.
    """
    if PACKAGE.is_dir():
        archive = package_zip(Path(SparkFiles.getRootDirectory(), "shipped"))
        context.addPyFile(str(archive))
        _import_here_from(context, archive)


def note_archive(context: SparkContext) -> None:
    """Where this package was sent as a zip (`--py-files`), let all processes here import it."""
    if not PACKAGE.is_dir():
        _import_here_from(context, PACKAGE.parent)


def _import_here_from(context: SparkContext, archive: Path) -> None:
    """Spark gives what was sent to tasks, but not to the driver's own readers of streams."""
    others = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(archive), *(path for path in others if path and path != str(archive))]
    context.environment["PYTHONPATH"] = os.pathsep.join(paths)


def package_zip(folder: Path) -> Path:
    """Write this package's code as `tutorial_pkg.zip` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{PACKAGE.name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(PACKAGE.rglob("*.py")):
            archive.write(file, file.relative_to(PACKAGE.parent))
    return target


# ---- The workers -------------------------------------------------------------------------------


def await_workers(context: SparkContext, seconds: float = WORKER_SECONDS) -> None:
    """Wait for the first workers to join, or say why a query will wait for them.

    Spark starts without them, but sources cut their work for as many as there are.
    Raises `ConnectionError` where the master has refused the session.
    """
    if context._jsc.sc().isStopped():
        raise ConnectionError(
            f"the master {context.master} has refused this session, for a minute: if it asks for a "
            "secret, set `spark.authenticate` and `spark.authenticate.secret`, or SPARK_CONF_DIR "
            "to a folder whose `spark-defaults.conf` has them. More is in the log"
        )
    found, since = 0, time.monotonic()

    def have_joined() -> bool:
        nonlocal found, since
        if (now := _executors(context)) != found:
            found, since = now, time.monotonic()
        return found > 0 and time.monotonic() - since > SETTLED_SECONDS

    if not wait_for(have_joined, seconds) and not found:
        print(_no_worker_text(context, seconds))


def _executors(context: SparkContext) -> int:
    """The driver is among those that have memory for blocks."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _no_worker_text(context: SparkContext, seconds: float) -> str:
    memory = context.getConf().get("spark.executor.memory", "1g")
    return (
        f"No worker of {context.master} has joined within {seconds:g} s; queries wait for one. It "
        f"needs a free core and {memory} (`spark.executor.memory`): see the master's web page"
    )


def note_cores(context: SparkContext) -> None:
    """Let the processes that cut work for tasks know how many may run at once."""
    context.environment[CORES] = str(context.defaultParallelism)
