"""Begin and end a lesson, and show the outcome of a call."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_connector_tests.query_process import QueryProcess
from tutorial_pkg.core.errors import last_error
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.start import stop_spark


def clear_desk(spark: SparkSession | None, lesson: str) -> Path:
    """Stop what an earlier run left running, and return the lesson's empty folder in `.work/`.

    So "Run All" also works the second time. Pass None before the lesson has a session of its own:
    one that an earlier run left is then stopped, too.
    """
    if spark is not None:
        _stop_everything(spark)
    elif left := SparkSession.getActiveSession():
        leave_desk(left)
    folder = work_dir("notebooks", lesson)
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


def leave_desk(spark: SparkSession) -> None:
    """Stop the lesson's queries, drivers and servers, and Spark with its Java process.

    A lesson that is left open keeps some 0.8 GB; this gives most of it back. Files stay in
    `.work/`. To continue afterwards, run the cell with `start_spark` again.
    """
    _stop_everything(spark)
    stop_spark(spark)


def _stop_everything(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()
    QueryProcess.close_all()


def outcome(call: Callable[[], Any]) -> str:
    """Return `it works`, or the call's error in one line of at most 300 characters."""
    try:
        with redirect_stderr(StringIO()):  # Spark prints the whole traceback, too
            call()
    except Exception as error:
        return str(last_error(error)).partition(". Please")[0][:300]
    return "it works"
