"""start_spark(): a Spark session that starts fast and keeps Spark's messages out of the console."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path
from socketserver import BaseServer
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.utils import is_remote

from tutorial_pkg import connectors
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.cell_errors import show_short_errors
from tutorial_pkg.session.cluster import (
    SHIP,
    await_workers,
    check_master,
    describe_session,
    ship,
    ships,
)
from tutorial_pkg.session.java import archive_options, find_java
from tutorial_pkg.session.settings import (
    APP_NAME,
    MASTER,
    SUBMIT_ARGS,
    Settings,
    is_here,
    is_local,
    named_outside,
    settings_for,
    submit_words,
)

KEPT_LOGS = 20
END_SECONDS = 600  # a JVM that writes the class archive takes its time to end
# A line of the JVM's output, but not of a stack trace, that says why the JVM does not start.
TROUBLE = re.compile(
    r"^(?=\S).*(error|exception|invalid|unrecognized|not found|no such).*", re.I | re.M
)


def start_spark(app_name: str | None = None, cores: int = 2, **conf: Any) -> SparkSession:
    """Return a Spark session with this package's formats registered and event times in UTC.

    By default it runs on this machine with two `cores`. Settings apply in Spark's own order:
    `app_name` and `conf` (`start_spark(**{"spark.ui.enabled": "false"})`), then `spark-submit` or
    `PYSPARK_SUBMIT_ARGS`, then `spark-defaults.conf`, then this package's defaults. If a
    `spark.master` is named anywhere, `cores` is ignored.

    On a cluster the package ships itself to the workers, unless `spark.tutorial_pkg.ship` is
    "false". They need pyspark and pyarrow, and the Python that `PYSPARK_PYTHON` names.

    If a session runs already, you get that one, and your arguments have no effect. After
    `spark.stop()` you get a new session. Create your columns and functions again then, since
    different settings need a new JVM.

    Spark and its JVM print to a log file. Its name is printed once, with the address of the Spark
    UI. The output of `.format("console")` goes there, too: to see rows here, use a `memory` sink.

    Raises:
        ValueError: `cores` is below 1, or workers on other machines could not reach the driver.
        ConnectionError: no standalone master answers.
        JavaNotFoundError: Java 17 or 21 is missing.
        RuntimeError: a session with a different master runs, the JVM does not start, or PySpark is
            set to Spark Connect, which starts no driver here.
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise ValueError(f"`cores` must be a whole number of at least 1, got {cores!r}")
    _refuse_connect(conf)
    # `getattr` would look for an attribute in the JVM.
    jvm = vars(SparkContext._gateway).get("proc") if SparkContext._gateway else None
    if jvm and jvm.poll() is not None:  # it was killed
        _end_jvm()
        SparkContext._active_spark_context = SparkSession._instantiatedSession = None
    if (running := SparkContext._active_spark_context) is None:
        name = {} if app_name is None else {APP_NAME: app_name}
        return _new_session(cores, {**name, **{key: str(value) for key, value in conf.items()}})
    if (named := str(conf.get(MASTER, running.master))) != running.master:
        raise RuntimeError(
            f"this process already has a session on {running.master}, so it cannot start one on "
            f"{named}: stop the first with `spark.stop()`"
        )
    session = SparkSession.builder.getOrCreate()
    register(session)
    return session


def _new_session(cores: int, given: Settings) -> SparkSession:
    _prepare_python()
    log = None
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # `spark-submit` started this Python from its JVM
        gateway = SparkContext._gateway or launch_gateway()
    else:
        log = _open_log()
        given = {MASTER: named_outside() or f"local[{cores}]", **given}
        settings_for(given, {})  # raises before a JVM is started
        gateway = _gateway_for(given, log)
    settings = settings_for(given, dict(SparkConf(_jvm=gateway.jvm).getAll()))
    check_master(settings[MASTER])
    shipping = ships(settings.get(SHIP, "true"))
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    context = SparkContext(gateway=gateway, conf=conf)
    if not is_local(settings[MASTER]):
        if shipping:
            ship(context)
        await_workers(context)
    session = SparkSession(context)
    register(session)
    show_short_errors()
    _greet(session, log)
    return session


def _refuse_connect(conf: dict[str, Any]) -> None:
    remote = conf.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote or is_remote():
        raise RuntimeError(
            "start_spark starts Spark in this process, but PySpark is set to Spark Connect "
            f"({remote or 'SPARK_CONNECT_MODE_ENABLED'}). Create the session yourself and register "
            "the formats: `spark = SparkSession.builder.remote(address).getOrCreate()`, "
            "`register(spark)`"
        )


def register(spark: SparkSession) -> None:
    """Make this package's formats known to `spark`: `cpu_log`, `file_lines` and so on.

    After `import pyspark.ml` this also registers the SQL functions of Spark's ML library, such as
    `vector_to_array`. `start_spark` leaves them out otherwise, since they take a second.
    """
    if not is_remote():
        describe_session(spark.sparkContext)
        if "pyspark.ml" in sys.modules:
            ml: Any = SparkContext._jvm.org.apache.spark.sql.ml  # type: ignore[union-attr]
            getattr(getattr(ml, "InternalFunctionRegistration$"), "MODULE$")
    for module in pkgutil.iter_modules(connectors.__path__, f"{connectors.__name__}."):
        if module.ispkg:
            for value in vars(import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, DataSource):
                    spark.dataSource.register(value)


def stop_spark(spark: SparkSession) -> None:
    """Stop the session and its JVM, and wait until both have ended."""
    spark.stop()
    _end_jvm()


# ---- The JVM -------------------------------------------------------------------------------------


def _gateway_for(given: Settings, log: Path) -> Any:
    """Return the JVM of an ended session, or a new one if that was started differently."""
    started_for = submit_words(given), os.environ["PYSPARK_PYTHON"]
    gateway: Any = SparkContext._gateway
    # `getattr` would look for an attribute in the JVM.
    if gateway and vars(gateway).get("started_for", started_for) != started_for:
        _end_jvm()
    gateway = SparkContext._gateway or launch(given, log)
    gateway.started_for = started_for
    return gateway


def _end_jvm() -> None:
    gateway: Any = SparkContext._gateway
    # A listener keeps its Java side, which would be null in the next JVM and break its queries.
    for proxy in list(gateway.gateway_property.pool.dict.values()):
        if listener := getattr(proxy, "pylistener", None):
            vars(listener).pop("_jlistenerobj", None)
    gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=END_SECONDS)
    SparkContext._gateway = SparkContext._jvm = None


def launch(given: Settings, log: Path) -> Any:
    """Start the JVM with its output in `log`, so that it never reaches a notebook's cell."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    before = dict(os.environ)  # restored, since a later session may run on a cluster
    try:
        if is_here(given[MASTER]):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the UI listens there only, too
            if home := spark_home():
                os.environ["SPARK_HOME"] = str(home)
        if is_local(given[MASTER]):
            os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")
        options = ["-Duser.timezone=UTC", "-XX:+UseSerialGC", *archive_options(java)]
        options.append(os.environ.get("SPARK_SUBMIT_OPTS", ""))
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
        os.environ[SUBMIT_ARGS] = submit_words(given)
        with log.open("ab") as output:
            start = output.tell()  # an earlier session's output ends here
            return launch_gateway(popen_kwargs={"stdout": output, "stderr": output})
    except PySparkRuntimeError:  # says only that the JVM has exited
        text = log.read_bytes()[start:].decode(errors="replace")
        reason = found[0] if (found := TROUBLE.search(text)) else text[-500:]
        raise RuntimeError(
            f"Spark's JVM did not start: {reason}. Its whole output: {os.path.relpath(log)}"
        ) from None
    finally:
        os.environ.clear()
        os.environ.update(before)


def spark_home() -> Path | None:
    """Return a folder of links to PySpark's files, but without its zipped copy of PySpark.

    Spark puts that zip first on the path of each Python process it starts. Imports from a zip are
    compiled each time, which costs 2.3 s before the first row of a source in Python. Return None
    where `SPARK_HOME` is set, or where the workers' Python may lack PySpark.
    """
    workers = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if "SPARK_HOME" in os.environ or workers != sys.executable:
        return None
    home = work_dir("spark-home", pyspark.__version__)
    for entry in Path(pyspark.__file__).parent.iterdir():
        link = home / entry.name
        if entry.name != "python" and not (link.is_symlink() and link.readlink() == entry):
            link.unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):  # another start was quicker
                link.symlink_to(entry)
    return home


def _prepare_python() -> None:
    """Choose the workers' Python, and keep PySpark from printing the errors that it also raises."""
    # Workers that run a different Python hang for seconds before they report anything.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")  # else a stack trace of 20 kB, as JSON
    for server in vars(accumulators).values():
        if isinstance(server, type) and issubclass(server, BaseServer):
            # Else an EOFError is printed when a query stops.
            server.handle_error = lambda *_: None  # type: ignore[method-assign]


# ---- The console ---------------------------------------------------------------------------------


def _open_log() -> Path:
    """Return this process's log file, and remove the oldest logs of earlier processes."""
    logs = work_dir("logs")
    log = logs / f"spark-{os.getpid()}.log"
    others = [file for file in logs.glob("spark-*.log") if file != log]
    with contextlib.suppress(FileNotFoundError):  # another start is removing them, too
        for old in sorted(others, key=lambda file: file.stat().st_mtime)[:-KEPT_LOGS]:
            old.unlink()
    return log


def _greet(spark: SparkSession, log: Path | None) -> None:
    context = spark.sparkContext
    where, cores = str(context.master), context.defaultParallelism
    if is_local(where):
        where = f"{cores} core{'s' if cores > 1 else ''}"
    text = f"Spark {spark.version} runs on {where}. UI: {context.uiWebUrl or 'off'}"
    print(f"{text} Log: {os.path.relpath(log)}" if log else text)
