"""The settings that a session starts with, and who has the last word on each.

Spark's own order, with this package's defaults below it: what the caller gives, then `spark-submit`
or `PYSPARK_SUBMIT_ARGS`, then `spark-defaults.conf` (or what `--properties-file` names in its
place), then what is written here.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf

from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.spark_versions import CHECKPOINT_FILES, HAS_UNIX_SOCKETS
from tutorial_pkg.session.socket_folder import socket_folder

Settings = dict[str, str]

MASTER, DRIVER_HOST = "spark.master", "spark.driver.host"
BIND_ADDRESS = "spark.driver.bindAddress"
DEPLOY_MODE, PY_FILES = "spark.submit.deployMode", "spark.submit.pyFiles"

OF_A_SESSION = ("spark.app.", "spark.sql.", "spark.tutorial_pkg.", "spark.ui.")
SUBMIT_ARGS, SHELL = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
OF_THE_LAUNCH = ("PYSPARK_PYTHON", SUBMIT_ARGS, "SPARK_HOME", "SPARK_LOCAL_IP")
STAND_FOR = {
    "--master": MASTER,
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-library-path": "spark.driver.extraLibraryPath",
}
ML = "pyspark.ml"
BRINGS_JARS = re.compile("--(jars|packages)")
JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)  # as Spark redacts
WITH_VALUE = ("--conf", "-c", "--properties-file", *STAND_FOR)


def settings_for(app_name: str | None, cores: int, outside: Settings, given: Settings) -> Settings:
    """All settings of a new session; `outside` is what `spark-submit` or a file says.

    Raises `ValueError` where workers on other machines could not reach the driver, and for what
    Spark would only stumble over later.
    """
    named = given if app_name is None else {"spark.app.name": app_name, **given}
    chosen = {**outside, **named}
    master = chosen.get(MASTER, f"local[{cores}]")
    _refuse_wheels(chosen.get(PY_FILES, ""))
    _refuse_driver_elsewhere(chosen)
    defaults = {"spark.app.name": "workbook", MASTER: master, "spark.sql.session.timeZone": "UTC"}
    if is_here(master):
        defaults |= {DRIVER_HOST: "127.0.0.1", BIND_ADDRESS: "127.0.0.1"}
    else:
        _refuse_loopback(master, chosen)
    if is_local(master):
        defaults |= _on_one_machine(_cores_of(master, cores))
        defaults |= _extensions(chosen)
    return {**defaults, **chosen}


def is_local(master: str) -> bool:
    """Whether Spark's tasks run on this machine: `local[2]`, `local-cluster[2,1,1024]` ..."""
    return master.startswith("local")


def _cores_of(master: str, cores: int) -> int:
    """Those of a `local[8]` that is named elsewhere come before the caller's `cores`."""
    if master == "local":
        return 1
    found = re.match(r"local\[\s*(\d+|\*)\s*[,\]]", master)
    if not found:
        return cores
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def is_here(master: str) -> bool:
    """Whether all that a session talks to is on this machine, a master on loopback included."""
    host = re.match(r"spark://\[?([^,\]]+?)\]?:\d+$", master)
    return is_local(master) or bool(host and _is_loopback(host[1]))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def of_the_jvm(settings: Settings) -> Settings:
    """What a JVM is started for: a session that wants another of these needs another JVM.

    The number of cores here is none of them, nor is what `OF_A_SESSION` names.
    """
    wanted = {key: value for key, value in settings.items() if not key.startswith(OF_A_SESSION)}
    if is_local(wanted[MASTER]):
        del wanted[MASTER]
    return wanted | {name: os.environ.get(name, "") for name in OF_THE_LAUNCH}


def _refuse_loopback(master: str, chosen: Settings) -> None:
    """Otherwise the first action would wait for ever, for workers that cannot answer."""
    addresses = {name: chosen[name] for name in (DRIVER_HOST, BIND_ADDRESS) if name in chosen}
    if DRIVER_HOST not in chosen:  # then Spark asks the environment
        addresses["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "")
    for name, address in addresses.items():
        if _is_loopback(address):
            raise ValueError(
                f"`{name}` is {address!r}, which workers of {master!r} cannot reach: set "
                f"`{DRIVER_HOST}` to this machine's name or address in their network, and "
                f"`{BIND_ADDRESS}` to '0.0.0.0'"
            )


def _refuse_wheels(files: str) -> None:
    """PySpark sends them, and puts nothing but archives on the workers' path."""
    wheels = [file for file in files.split(",") if file.endswith(".whl")]
    if wheels:
        raise ValueError(
            f"`{PY_FILES}` names {wheels[0]!r}, which PySpark would send and not import from: "
            "rename it to end with .zip. (This package needs none: it ships itself.)"
        )


def _refuse_driver_elsewhere(chosen: Settings) -> None:
    if chosen.get(DEPLOY_MODE) == "cluster" and not is_submitted():
        raise ValueError(
            f"`{DEPLOY_MODE}` is 'cluster', and the driver is this Python: use 'client', or hand "
            "the script to `spark-submit --deploy-mode cluster` (not on standalone, where Spark "
            "has no such mode for Python)"
        )


def _on_one_machine(cores: int) -> Settings:
    """What suits a laptop; a cluster has its administrator's settings."""
    return {
        "spark.driver.memory": "2g",
        "spark.local.dir": str(work_dir("spark")),
        "spark.sql.warehouse.dir": str(work_dir("warehouse")),
        # The rest is for speed: bench_startup.py and bench_latency.py show what it gives.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores),
        # Spark's default manager starts some ten `readlink` processes for each micro-batch.
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        **_sockets(),
    }


def _extensions(chosen: Settings) -> Settings:
    """Spark looks through all jars for extensions, and comes with one: functions of its ML library.

    They take a second of each start, as their types are found by reflection, and streams seldom
    need them. `register` adds them where `pyspark.ml` was imported.
    """
    words = shlex.split(os.environ.get(SUBMIT_ARGS, ""))
    brought = any(chosen.get(name) for name in JARS) or any(BRINGS_JARS.match(w) for w in words)
    if brought or "SPARK_HOME" in os.environ or ML in sys.modules:
        return {}
    return {"spark.sql.extensions.test.loadFromCp": "false"}


def _sockets() -> Settings:
    """Over TCP, each task in a reused worker waits 40 ms for a delayed acknowledgement."""
    folder = socket_folder() if HAS_UNIX_SOCKETS else None
    if folder is None:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


# ---- From outside ------------------------------------------------------------------------------


def is_submitted() -> bool:
    """Whether `spark-submit` has started this Python; its JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted(jvm: Any) -> Settings:
    """What `spark-submit` has made of its options and files."""
    return dict(SparkConf(loadDefaults=True, _jvm=jvm).getAll())


def from_files_and_environment() -> Settings:
    """What `spark-submit` would read if it were started now."""
    options = _submit_options(os.environ.get(SUBMIT_ARGS, ""))
    files = [Path(value) for option, value in options if option == "--properties-file"][-1:]
    if not files or ("--load-spark-defaults", "") in options:
        files.insert(0, _usual_file())
    found = {name: value for file in files for name, value in _settings_in(file).items()}
    return found | _submit_settings(options)


def _usual_file() -> Path:
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    return folder / "spark-defaults.conf"


def _settings_in(file: Path) -> Settings:
    """Spark itself complains of one that is named and not there."""
    return parse_defaults(file.read_text()) if file.is_file() else {}


def parse_defaults(text: str) -> Settings:
    """The settings of a `spark-defaults.conf`: `name value` or `name=value`, `#` for comments."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line[:1] not in "#!")
    return {name: "".join(value) for name, *value in pairs if name.startswith("spark.")}


def _submit_options(text: str) -> list[tuple[str, str]]:
    """Those that concern settings, read as Spark does: a value may begin with `-`."""
    words = iter(shlex.split(text))
    found = []
    for word in words:
        option, equals, value = word.partition("=")
        if option in WITH_VALUE:
            found.append((option, value if equals else next(words, "")))
        elif option == "--load-spark-defaults":
            found.append((option, ""))
    return found


def _submit_settings(options: list[tuple[str, str]]) -> Settings:
    """An option of its own comes before a `--conf` of the same meaning."""
    pairs = [value.split("=", 1) for option, value in options if option in ("--conf", "-c")]
    named = {STAND_FOR[option]: value for option, value in options if option in STAND_FOR}
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2} | named


def submit_words(text: str, settings: Settings) -> str:
    """What `PYSPARK_SUBMIT_ARGS` says, with `settings` after it: of two, Spark takes the last.

    They go before `pyspark-shell`, which ends the options. Secrets are left out, since all users
    of a machine can see a command line; the session gets them when its JVM runs.
    """
    words = shlex.split(text)
    end = [SHELL] if words[-1:] == [SHELL] else []
    public = (name for name in settings if not SECRET.search(name))
    ours = [word for name in public for word in ("--conf", f"{name}={settings[name]}")]
    if MASTER in settings:  # `--master` beats a setting, be it the last
        ours += ["--master", settings[MASTER]]
    return shlex.join([*words[: len(words) - len(end)], *ours, *end])
