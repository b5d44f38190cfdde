"""start_spark(): a Spark session that starts fast and leaves the console to the learner.

Some names that PySpark does not call public are used: `java_gateway.launch_gateway`,
`SparkContext._gateway`, the accumulator servers, what a listener keeps of its Java side, and where
Spark's JVM keeps the sources that it has looked up. `tests/unit/session/test_session_privates.py`
and `tests/integration/test_session.py` notice when they change.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.utils import is_remote

from tutorial_pkg import connectors
from tutorial_pkg.core.file_lock import pid_exists
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.spark_versions import ACCUMULATOR_SERVERS
from tutorial_pkg.session.cluster_start import (
    SHIP,
    await_workers,
    check_master,
    note_archive,
    note_cores,
    ship,
    ships,
)
from tutorial_pkg.session.java import Java, archive_options, find_java
from tutorial_pkg.session.settings import (
    DRIVER_HOST,
    MASTER,
    ML,
    SHELL,
    SUBMIT_ARGS,
    Settings,
    from_files_and_environment,
    is_local,
    is_submitted,
    of_the_jvm,
    settings_for,
    submit_words,
    submitted,
)
from tutorial_pkg.session.spark_home import spark_home

KEPT_LOGS = 20
END_SECONDS = 600  # for a JVM to end: one that writes the class archive takes its time
# What runs some thousand times while Spark starts does not earn its second compiler; four times
# the JVM's own numbers.
LATER_COMPILED = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
)
TROUBLE = re.compile(r"error|exception|invalid|unrecognized|not found|no such", re.IGNORECASE)


def start_spark(app_name: str | None = None, cores: int = 2, **conf: Any) -> SparkSession:
    """A Spark session with this package's formats registered and event times in UTC.

    On its own it runs on this machine, with that many `cores`. Settings count in Spark's own order:
    `app_name` and `conf` (`start_spark(**{"spark.ui.enabled": "false"})`), then what `spark-submit`
    or `PYSPARK_SUBMIT_ARGS` say, then `spark-defaults.conf`, then the defaults of this package.
    So a `spark.master` that is named anywhere is used; `cores` counts only if none is named.
    Workers are this Python, unless `PYSPARK_PYTHON` names one.

    On a cluster the package ships itself to the workers, unless `spark.tutorial_pkg.ship` is
    "false"; what it needs (pyspark, pyarrow) must be installed there.

    Called again, it returns the session that runs; after `spark.stop()`, a new one. That one also
    gets a new JVM if the settings differ: what was made in the old one, such as columns and
    functions, has to be made again. What Spark and its JVM print goes to a log file, which is named
    once, together with the address of the Spark UI.

    Raises `ValueError` for `cores` below 1 and for a master on other machines whose workers could
    not reach a driver on loopback, `ConnectionError` where no standalone master answers,
    `JavaNotFoundError` without Java 17 or 21, and `RuntimeError` where a session with another
    master runs, where Spark's JVM does not start, or where PySpark is set to Spark Connect, which
    starts no driver here.
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise ValueError(f"`cores` must be a whole number of at least 1, got {cores!r}")
    _refuse_connect(conf)
    if (running := SparkContext._active_spark_context) is not None:
        if (named := str(conf.get(MASTER, running.master))) != running.master:
            raise RuntimeError(
                f"a session on {running.master} runs in this process, so there can be none on "
                f"{named}: stop it first with `spark.stop()`"
            )
        session = SparkSession.builder.getOrCreate()
        register(session)
        return session
    return _new_session(app_name, cores, {key: str(value) for key, value in conf.items()})


def _new_session(app_name: str | None, cores: int, given: Settings) -> SparkSession:
    _prepare_python()
    log = None
    if is_submitted():
        gateway = SparkContext._gateway or launch_gateway()  # connects to the JVM that runs already
        settings = settings_for(app_name, cores, submitted(gateway.jvm), given)
    else:
        settings = settings_for(app_name, cores, from_files_and_environment(), given)
        check_master(settings[MASTER])
        log = _open_log()
        gateway = _gateway_for(settings, log)
    shipping = ships(settings.get(SHIP, "true"))
    context = SparkContext(gateway=gateway, conf=_spark_conf(settings))
    if not is_local(settings[MASTER]):
        if shipping:
            ship(context)
        await_workers(context)
    _spare_lookup(gateway.jvm)
    session = SparkSession(context)
    register(session)
    _greet(session, log)
    return session


def _refuse_connect(conf: dict[str, Any]) -> None:
    remote = conf.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote or is_remote():
        raise RuntimeError(
            "start_spark starts Spark in this process, and PySpark is set to Spark Connect "
            f"({remote or 'SPARK_CONNECT_MODE_ENABLED'}). There, make the session yourself and "
            "register the formats: `spark = SparkSession.builder.remote(address).getOrCreate()`, "
            "`register(spark)`"
        )


def _spark_conf(settings: Settings) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def stop_spark(spark: SparkSession) -> None:
    """Stop the session and its JVM, and wait until both are gone."""
    spark.stop()
    _end_jvm()


def _end_jvm() -> None:
    gateway: Any = SparkContext._gateway
    _part_from_listeners(gateway)
    gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=END_SECONDS)
    SparkContext._gateway = SparkContext._jvm = None


def _part_from_listeners(gateway: Any) -> None:
    """A listener keeps its Java side; without it, it makes a new one where it is added next.

    The old one would be null to another JVM, and break each query that starts there.
    """
    for proxy in list(gateway.gateway_property.pool.dict.values()):
        if listener := getattr(proxy, "pylistener", None):
            vars(listener).pop("_jlistenerobj", None)


def register(spark: SparkSession) -> None:
    """Make this package's formats known to `spark`: `cpu_log`, `file_lines` and so on.

    After `import pyspark.ml` it also registers the SQL functions of Spark's ML library, such as
    `vector_to_array`. `start_spark` leaves them out if `pyspark.ml` is imported later: they take a
    second.
    """
    if not is_remote():
        note_cores(spark.sparkContext)
        note_archive(spark.sparkContext)
        if ML in sys.modules:
            _register_ml_functions(SparkContext._jvm)
    for source in _formats():
        spark.dataSource.register(source)


def _formats() -> list[type[DataSource]]:
    """What the connectors' folders offer.

    Imported when needed: that takes 0.3 s, a tenth of a session's start.
    """
    found = pkgutil.iter_modules(connectors.__path__, f"{connectors.__name__}.")
    folders = [import_module(each.name) for each in found if each.ispkg]
    offered = [value for folder in folders for value in vars(folder).values()]
    return [each for each in offered if isinstance(each, type) and issubclass(each, DataSource)]


def _spare_lookup(jvm: Any) -> None:
    """Tell Spark that no package here is named `pyspark_…` and brings sources, where that is so.

    It would start a Python process to find out, and wait for it. Where that process might see
    others than this one, or Spark keeps them in another place, it still does.
    """
    pythons = {os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]}
    if is_submitted() or pythons != {sys.executable}:
        return
    paths = [str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    paths = [path for path in paths if Path(path).exists()]  # not a zip of a session that has ended
    if any(module.name.startswith("pyspark_") for module in pkgutil.iter_modules(paths)):
        return
    with contextlib.suppress(Py4JError, TypeError):
        manager = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        manager = getattr(manager, "MODULE$")
        none = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        if manager.dataSourceBuilders().isEmpty():
            getattr(manager, "dataSourceBuilders_$eq")(jvm.scala.Some(none))


def _register_ml_functions(jvm: Any) -> None:
    """Once in a JVM: it is an object of Scala, made when it is first asked for."""
    getattr(getattr(jvm.org.apache.spark.sql.ml, "InternalFunctionRegistration$"), "MODULE$")


def _java_options(java: Java) -> str:
    options = ("-Duser.timezone=UTC", "-XX:+UseSerialGC", *LATER_COMPILED, *archive_options(java))
    return " ".join(options)


def _gateway_for(settings: Settings, log: Path) -> Any:
    """The JVM that an ended session has left, unless we have started it for other settings.

    Such a one may listen on loopback only, where the workers of a cluster never reach it.
    """
    left: Any = SparkContext._gateway
    wanted = of_the_jvm(settings)
    # Not by getattr: a gateway looks in the JVM for an attribute that it does not have.
    if left and vars(left).get("started_for", wanted) != wanted:
        _end_jvm()
        left = None
    if not left:
        left = _launch(settings, log)
        left.started_for = wanted
    return left


def _launch(settings: Settings, log: Path) -> Any:
    """Start the JVM with its output in `log`, so that it never reaches a notebook's cell."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    # A small JVM works out the command line of the large one: let it not warm up.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    all_settings = {"spark.driver.extraJavaOptions": _java_options(java), **settings}
    words = submit_words(os.environ.get(SUBMIT_ARGS, SHELL), all_settings)
    # Where the driver is on loopback, the JVM's UI listens there only, too.
    wanted = {"SPARK_LOCAL_IP": settings.get(DRIVER_HOST), "SPARK_HOME": spark_home()}
    with open(log, "ab") as output, _environment(wanted, {SUBMIT_ARGS: words}):
        before = log.stat().st_size  # what an earlier session in this process has said
        try:
            with ThreadPoolExecutor(1) as meanwhile:
                imports = meanwhile.submit(_formats)
                gateway = launch_gateway(popen_kwargs={"stdout": output, "stderr": output})
            imports.result()
            return gateway
        except PySparkRuntimeError:  # it only tells that the JVM is gone
            why = _telling_lines(log.read_bytes()[before:].decode(errors="replace"))
            raise RuntimeError(
                f"Spark's JVM did not start: {why}. All it said: {os.path.relpath(log)}"
            ) from None


def _telling_lines(text: str, most: int = 3) -> str:
    """From the first line that names trouble, without stack traces; else the last lines."""
    lines = [line.rstrip(". ") for line in text.splitlines() if line[:1].strip()]
    named = [number for number, line in enumerate(lines) if TROUBLE.search(line)]
    told = lines[named[0] :][:most] if named else lines[-most:]
    return "; ".join(told) or "it said nothing"


@contextlib.contextmanager
def _environment(
    wanted: Mapping[str, str | Path | None], replaced: Mapping[str, str]
) -> Iterator[None]:
    """Set what is not set yet, and what is to be `replaced`; only for a while.

    A later session may be on a cluster.
    """
    ours = {key: str(value) for key, value in wanted.items() if value and key not in os.environ}
    before = {key: os.environ.get(key) for key in (*ours, *replaced)}
    os.environ.update({**ours, **replaced})
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _prepare_python() -> None:
    """Choose the workers' Python, and keep PySpark from printing what it raises anyway."""
    # Workers that are some other Python hang for seconds before they say anything.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # A task has one core, and NumPy's other threads cost each Python process an eighth of a second.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")  # else a stack trace of 20 kB, as JSON
    for server in ACCUMULATOR_SERVERS:
        server.handle_error = lambda *_: None  # else an EOFError whenever a query is stopped


def _open_log() -> Path:
    """This process's log file; the oldest logs of processes that have ended are removed."""
    logs = work_dir("logs")
    ended = [file for file in logs.glob("spark-*.log") if not _is_in_use(file)]
    for old in sorted(ended, key=_modified)[:-KEPT_LOGS]:
        old.unlink(missing_ok=True)
    return logs / f"spark-{os.getpid()}.log"


def _is_in_use(log: Path) -> bool:
    pid = log.stem.removeprefix("spark-")
    return pid.isdigit() and pid_exists(int(pid))


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # another start has removed it
        return 0.0


def _greet(spark: SparkSession, log: Path | None) -> None:
    context = spark.sparkContext
    master = str(context.master)
    cores, told = context.defaultParallelism, [f"UI: {context.uiWebUrl or 'off'}"]
    where = f"{cores} core{'s' if cores > 1 else ''}" if is_local(master) else master
    if log:
        told.append(f"Log: {os.path.relpath(log)}")
    if os.environ["PYSPARK_PYTHON"] != sys.executable:
        told.append(f"Workers: {os.environ['PYSPARK_PYTHON']} (PYSPARK_PYTHON)")
    print(f"Spark {spark.version} runs on {where}. {' '.join(told)}")
