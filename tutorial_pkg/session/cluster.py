"""Beyond one machine: find the master, ship the package, wait for the workers."""

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
CONNECT_SECONDS = 5.0
WORKER_SECONDS = 60.0
SETTLED_SECONDS = 1.0  # the workers of a cluster join at almost the same time
PACKAGE = Path(__file__).parents[1]


def check_master(master: str) -> None:
    """Raise `ConnectionError` if no standalone master responds; Spark would try for a minute."""
    failure = None
    for host, port in re.findall(r"(?:spark://|,)\[?([^,]+?)\]?:(\d+)(?=,|$)", master):
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            return
        except OSError as error:
            failure = error
    if failure:
        raise ConnectionError(
            f"no Spark master responds at {master!r} ({failure}): start it, or correct "
            "`spark.master`; the address is at the top of its web page"
        )


def ships(setting: str) -> bool:
    """Return the value of the option that ships the package; raise `ValueError` if it has none."""
    if setting.lower() not in ("true", "false"):
        raise ValueError(f"`{SHIP}` must be true or false, got {setting!r}")
    return setting.lower() == "true"


def ship(context: SparkContext) -> None:
    """Send this package to the workers. It takes precedence over one that is installed there."""
    if PACKAGE.is_dir():  # else it was shipped itself, as a zip
        shipped = Path(SparkFiles.getRootDirectory(), "shipped", f"{PACKAGE.name}.zip")
        shipped.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(shipped, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(PACKAGE.rglob("*.py")):
                archive.write(file, file.relative_to(PACKAGE.parent))
        context.addPyFile(str(shipped))
        _import_here_from(context, shipped)


def describe_session(context: SparkContext) -> None:
    """Give Spark's Python processes the number of cores, and a package that came as a zip."""
    context.environment[CORES] = str(context.defaultParallelism)
    if not PACKAGE.is_dir():  # `--py-files`
        _import_here_from(context, PACKAGE.parent)


def _import_here_from(context: SparkContext, archive: Path) -> None:
    """Spark puts shipped files on the path of tasks, but not of the driver's stream readers."""
    others = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(archive), *(path for path in others if path and path != str(archive))]
    context.environment["PYTHONPATH"] = os.pathsep.join(paths)


def await_workers(context: SparkContext, seconds: float = WORKER_SECONDS) -> None:
    """Wait for the first workers, since sources split their work into as many parts as there are.

    Print what is missing if none joins. Raise `ConnectionError` if the master ended the session.
    """
    java = context._jsc.sc()
    if java.isStopped():
        context.stop()  # else the next `start_spark` would return this session
        raise ConnectionError(
            f"the master {context.master} ended this session. If it asks for a secret, set "
            "`spark.authenticate` and `spark.authenticate.secret`, or SPARK_CONF_DIR to a folder "
            "with a `spark-defaults.conf` that has them. The log has more"
        )

    def count() -> int:
        return int(java.getExecutorMemoryStatus().size()) - 1  # without the driver

    workers = wait_for(count, seconds)
    while workers:
        time.sleep(SETTLED_SECONDS)
        if count() == workers:
            return
        workers = count()
    memory = context.getConf().get("spark.executor.memory", "1g")
    print(
        f"No worker of {context.master} has joined within {seconds:g} s. Queries wait for one "
        f"with a free core and {memory} (`spark.executor.memory`) that reaches this driver at "
        f"{context.getConf().get('spark.driver.host')} (`spark.driver.host`). See the master's "
        "web page"
    )
