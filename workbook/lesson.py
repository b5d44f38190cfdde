"""Begin a lesson on a clean desk, also when "Run All" is pressed for the second time."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from spark_connector_tests.query_process import QueryProcess
from tutorial_pkg.core.places import work_dir
from workbook.services import Service


def clear_desk(spark: SparkSession, lesson: str) -> Path:
    """End what an earlier run has left and empty the lesson's folder under `.work/`; that folder.

    This session's queries are stopped, those in processes of their own killed, and servers closed.
    """
    for query in spark.streams.active:
        query.stop()
    QueryProcess.close_all()
    Service.close_all()
    folder = work_dir("notebooks", lesson)
    shutil.rmtree(folder)
    folder.mkdir()
    return folder
