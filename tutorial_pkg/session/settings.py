"""The settings that a session starts with.

`start_spark` states their order. The JVM reads those of `spark-submit` and of files itself; only
the master has to be known before it starts.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from functools import cache
from pathlib import Path

import pyspark

from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.spark_versions import CHECKPOINT_FILES, FILTERS

Settings = dict[str, str]

MASTER, APP_NAME = "spark.master", "spark.app.name"
DRIVER_HOST, BIND_ADDRESS = "spark.driver.host", "spark.driver.bindAddress"
SUBMIT_ARGS, SHELL = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
OF_A_SESSION = ("spark.app.", "spark.sql.", "spark.tutorial_pkg.", "spark.ui.")
SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)  # as Spark redacts
IN_ARGS = re.compile(r"""(?:--master|spark\.master)[ =]["']?([^\s"']+)""")
IN_FILE = re.compile(r"^\s*spark\.master[ \t=:]+(\S+)", re.MULTILINE)
LOOPBACK = r"\[?(localhost|127\.[\d.]+|::1)\]?"
PROPERTIES_FILE = re.compile(r"""--properties-file[ =]["']?([^\s"']+)""")
JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


# ---- The master ----------------------------------------------------------------------------------


def named_outside() -> str | None:
    """Return the master in `PYSPARK_SUBMIT_ARGS` or in the properties file that Spark will read."""
    arguments = os.environ.get(SUBMIT_ARGS, "")
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    usual = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    file = Path([usual, *PROPERTIES_FILE.findall(arguments)][-1])
    in_file = IN_FILE.findall(file.read_text()) if file.is_file() else []
    masters = [*in_file, *IN_ARGS.findall(arguments)]
    return masters[-1] if masters else None


def is_local(master: str) -> bool:
    """Return whether the tasks run on this machine: `local[2]`, `local-cluster[2,1,1024]` …"""
    return master.startswith("local")


def is_here(master: str) -> bool:
    """Return whether everything a session talks to is on this machine."""
    return is_local(master) or bool(re.fullmatch(rf"spark://{LOOPBACK}:\d+", master))


# ---- All settings --------------------------------------------------------------------------------


def settings_for(given: Settings, outside: Settings) -> Settings:
    """Return all settings of a new session.

    Args:
        given: the caller's settings.
        outside: the settings from `PYSPARK_SUBMIT_ARGS`, `spark-submit` and files.

    Raises:
        ValueError: workers on other machines could not reach the driver.
    """
    chosen = {**outside, **given}
    master = chosen[MASTER]
    if chosen.get(APP_NAME) == SHELL:  # Spark's own name for a session without one
        del chosen[APP_NAME]
    defaults = {APP_NAME: "workbook", "spark.sql.session.timeZone": "UTC", FILTERS: "true"}
    if is_here(master):
        defaults |= {DRIVER_HOST: "127.0.0.1", BIND_ADDRESS: "127.0.0.1"}
    else:
        _refuse_loopback(master, chosen)
    if is_local(master):
        defaults |= {
            "spark.local.dir": str(work_dir("spark")),
            "spark.sql.warehouse.dir": str(work_dir("warehouse")),
            "spark.sql.shuffle.partitions": str(cores_of(master)),
            # Spark's default manager starts some ten `readlink` processes for each micro-batch.
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
            # Over TCP, each task in a reused worker waits 40 ms for a delayed acknowledgement.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": socket_folder().name,
        }
        if "SPARK_HOME" not in os.environ and not any(map(chosen.get, JARS)):
            # Spark would search all jars for SQL functions, and find only its ML library's, which
            # `register` adds.
            defaults["spark.sql.extensions.test.loadFromCp"] = "false"
    return {**defaults, **chosen}


def _refuse_loopback(master: str, chosen: Settings) -> None:
    """Otherwise the first action would wait forever for workers that cannot reach the driver."""
    addresses = {DRIVER_HOST: os.environ.get("SPARK_LOCAL_IP", ""), BIND_ADDRESS: ""}
    for name, address in addresses.items():
        if re.fullmatch(LOOPBACK, address := chosen.get(name, address)):
            raise ValueError(
                f"`{name}` is {address!r}, which workers of {master!r} cannot reach: set "
                f"`{DRIVER_HOST}` to this machine's name or address in their network, and "
                f"`{BIND_ADDRESS}` to '0.0.0.0'"
            )


def cores_of(master: str) -> int:
    if "*" in master:
        return os.cpu_count() or 1
    number = re.search(r"\d+", master)
    return int(number[0]) if number else 1


@cache
def socket_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a private folder for the sockets between the JVM and Python, removed at exit.

    It is in /tmp, since a socket's path must be short.
    """
    return tempfile.TemporaryDirectory("", "spark-sockets-", "/tmp", ignore_cleanup_errors=True)


# ---- For the JVM ---------------------------------------------------------------------------------


def submit_words(given: Settings) -> str:
    """Return `PYSPARK_SUBMIT_ARGS` with the caller's settings added: Spark takes the last of two.

    Settings of a session are left out, so that the next one can have others in the same JVM. So are
    secrets, because every user of a machine can see a command line.
    """
    words = [word for word in shlex.split(os.environ.get(SUBMIT_ARGS, "")) if word != SHELL]
    for name, value in given.items():
        if name != MASTER and not name.startswith(OF_A_SESSION) and not SECRET.search(name):
            words += ["--conf", f"{name}={value}"]
    return shlex.join([*words, "--master", given[MASTER], SHELL])
