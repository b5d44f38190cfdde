"""Begin a lesson on a clean desk, also when "Run All" is pressed for the second time."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from tutorial_pkg.core.places import work_dir


def clear_desk(spark: SparkSession, lesson: str) -> Path:
    """Stop this session's queries and empty the lesson's folder under `.work/`; that folder."""
    for query in spark.streams.active:
        query.stop()
    folder = work_dir("notebooks", lesson)
    shutil.rmtree(folder)
    folder.mkdir()
    return folder
