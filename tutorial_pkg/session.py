"""start_spark(): a local Spark session that starts fast and leaves the console to the learner."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, accumulators
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tutorial_pkg.java import find_java


def work_dir(*parts: str) -> Path:
    """A folder under `.work/` of the project (or of the current folder, outside of one), made."""
    here = Path.cwd()
    root = next((p for p in (here, *here.parents) if (p / "environment.yml").is_file()), here)
    folder = root.joinpath(".work", *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start_spark(app_name: str = "workbook", cores: int = 2, **conf: Any) -> SparkSession:
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.master": f"local[{cores}]",
        "spark.app.name": app_name,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(work_dir("spark")),
        "spark.sql.warehouse.dir": str(work_dir("warehouse")),
        "spark.sql.catalogImplementation": "in-memory",
        **{key: str(value) for key, value in conf.items()},
    }
    spark_conf = SparkConf(loadDefaults=False).setAll(settings.items())
    log = open(work_dir("logs") / f"spark-{os.getpid()}.log", "ab")
    gateway = launch_gateway(spark_conf, popen_kwargs={"stdout": log, "stderr": log})
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = lambda *_: None
    context = SparkContext(gateway=gateway, conf=spark_conf)
    spark = SparkSession(context)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    from tutorial_pkg import data_sources

    for source in data_sources():
        spark.dataSource.register(source)
