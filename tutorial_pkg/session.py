"""start_spark(): a local Spark session that starts fast and leaves the console to the learner.

Three names that PySpark does not call public are used, here and nowhere else:
`java_gateway.launch_gateway`, `SparkContext._gateway` and the accumulator servers.
`tests/unit/test_session_privates.py` notices when they change.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, accumulators
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tutorial_pkg.connectors.cpu_log import CpuLogDataSource
from tutorial_pkg.connectors.file_lines import FileLinesDataSource
from tutorial_pkg.connectors.network_lines import NetworkLinesDataSource
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.java import Java, archive_path, find_java

KEPT_LOGS = 20
CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def start_spark(app_name: str = "workbook", cores: int = 2, **conf: Any) -> SparkSession:
    """A local Spark session with this package's formats registered and event times in UTC.

    Called again, it returns the session that runs. `conf` overrides any setting:
    `start_spark(**{"spark.ui.enabled": "false"})`. What Spark and its JVM print goes to a log
    file, which is named once, together with the address of the Spark UI.

    Raises `ValueError` for `cores` below 1 and `JavaNotFoundError` without Java 17 or 21.
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise ValueError(f"`cores` must be a whole number of at least 1, got {cores!r}")
    if SparkContext._active_spark_context is not None:
        session = SparkSession.builder.getOrCreate()
        register(session)
        return session
    given = {key: str(value) for key, value in conf.items()}
    settings = SparkConf(loadDefaults=False)
    settings.setAll(list({**_defaults(app_name, cores), **given}.items()))
    log = _open_log()
    gateway = SparkContext._gateway or _launch(settings, log)
    session = SparkSession(SparkContext(gateway=gateway, conf=settings))
    register(session)
    _greet(session, cores, log)
    return session


def stop_spark(spark: SparkSession) -> None:
    """Stop the session and its JVM, and wait until both are gone."""
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None


def register(spark: SparkSession) -> None:
    """Make the formats `cpu_log`, `file_lines` and `network_lines` known to `spark`."""
    for source in (CpuLogDataSource, FileLinesDataSource, NetworkLinesDataSource):
        spark.dataSource.register(source)


def _defaults(app_name: str, cores: int) -> dict[str, str]:
    return {
        "spark.app.name": app_name,
        "spark.master": f"local[{cores}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(work_dir("spark")),
        "spark.sql.warehouse.dir": str(work_dir("warehouse")),
        # The rest is for a quick start: benchmarks/bench_startup.py shows what each gives.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        # Spark's default manager starts some ten `readlink` processes for each micro-batch.
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        "spark.driver.extraJavaOptions": _java_options(find_java()),
    }


def _java_options(java: Java) -> str:
    options = ["-Duser.timezone=UTC", "-XX:+UseSerialGC"]
    archive = archive_path(java)
    if archive.is_file():
        options.append(f'-XX:SharedArchiveFile="{archive}"')
    return " ".join(options)


def _launch(settings: SparkConf, log: Path) -> Any:
    """Start the JVM with its output in `log`, so that it never reaches a notebook's cell."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    # Workers must be this very Python, or the query hangs for seconds before it says anything.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the UI listens on loopback too
    # A small JVM works out the command line of the large one: let it not warm up.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    _quiet_python()
    with open(log, "ab") as output:
        return launch_gateway(settings, popen_kwargs={"stdout": output, "stderr": output})


def _quiet_python() -> None:
    """Keep PySpark's own Python code from printing what it raises or gets over anyway."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")  # else a stack trace of 20 kB, as JSON
    servers: list[Any] = [accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer]
    for server in servers:
        server.handle_error = lambda *_: None  # else an EOFError whenever a query is stopped


def _open_log() -> Path:
    """This process's log file; the oldest logs of earlier ones are removed."""
    logs = work_dir("logs")
    for old in sorted(logs.glob("spark-*.log"), key=_modified)[:-KEPT_LOGS]:
        old.unlink(missing_ok=True)
    return logs / f"spark-{os.getpid()}.log"


def _modified(file: Path) -> float:
    return file.stat().st_mtime if file.exists() else 0.0


def _greet(spark: SparkSession, cores: int, log: Path) -> None:
    interface = spark.sparkContext.uiWebUrl or "off"
    where = os.path.relpath(log)
    print(f"Spark {spark.version} runs on {cores} cores. UI: {interface} Log: {where}")
