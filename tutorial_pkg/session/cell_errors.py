"""Short errors in notebooks: your own lines and the cause, instead of 150 lines of Java."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from tutorial_pkg.core.errors import last_error

RESTART = "Spark is stopped. Run the cell with `start_spark` again, then this one."
# A stopped session raises the last two, from inside PySpark.
KINDS = (PySparkException, Py4JError, ConnectionRefusedError, AttributeError)


def show_short_errors() -> None:
    """In IPython, show Spark's errors as the lines of your cell and one line with the cause."""
    ipython = sys.modules.get("IPython")
    if shell := ipython and ipython.get_ipython():
        shell.set_custom_exc(KINDS, _show)


def _show(
    shell: Any, kind: type, error: BaseException, trace: TracebackType, tb_offset: int | None = None
) -> None:
    frames = traceback.extract_tb(trace)
    text = short_text(error, frames[-1].filename)
    if text is None:
        shell.showtraceback((kind, error, trace), tb_offset)
        return
    own = [frame for frame in frames if "ipykernel_" in frame.filename]
    shell._showtraceback(kind, error, [*[f"line {f.lineno}: {f.line}" for f in own], text])


def short_text(error: BaseException, raised_in: str) -> str | None:
    """Return the text to show, or None for an error that has nothing to do with Spark."""
    of_spark = isinstance(error, PySparkException | Py4JError)
    if not of_spark and "pyspark" not in raised_in and "py4j" not in raised_in:
        return None
    if SparkContext._active_spark_context is None:
        return RESTART
    return last_error(error) or str(error)
