"""last_error() on what Spark really raised: the texts are copies, shortened where they repeat."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tutorial_pkg.core.errors import last_error

IN_A_TASK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "bad.py", line 14, in read
    def read(self, p): pa.array(["x"]).cast(pa.int32()); yield ("x",)
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "pyarrow/error.pxi", line 92, in pyarrow.lib.check_status
pyarrow.lib.ArrowInvalid: Failed to parse string: 'x' as a scalar of type int32"""

IN_A_COMMIT = """[STREAM_FAILED] Query [id = 4f63ac89, runId = 0e281bdd] terminated with \
exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data \
source perform commit: Traceback (most recent call last):
  File "bad.py", line 31, in commit
    if self.o["at"]=="commit": raise Odd("of two lines:\\nsecond")
                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
__main__.SW.<locals>.Odd: of two lines:
second
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Current State: ACTIVE"""

CHAINED = """Traceback (most recent call last):
  File "bad.py", line 24, in commit
    try: 1/0
         ~^~
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "bad.py", line 25, in commit
    except ZeroDivisionError as e: raise RuntimeError("commit failed") from e
RuntimeError: commit failed
 SQLSTATE: 38000"""

JAVA_IN_A_STREAM = """[STREAM_FAILED] Query [id = 4083e281, runId = 605a340e] terminated with \
exception: Job aborted due to stage failure: Task 0 in stage 10.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 10.0 (TID 16) (localhost executor driver): java.io.IOException: \
Mkdirs failed to create file:/proc/nope (exists=false)
\tat org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:774)"""

JAVA_CAUSES = """An error occurred while calling o98.save.
: org.apache.spark.SparkException: Writing job failed.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.writingJobFailedError(Query.scala:947)
Caused by: org.apache.spark.SparkException: Task failed while writing rows.
\t... 1 more
Caused by: java.io.IOException: No space left on device
\t... 2 more"""

# Python's trace ends in the call; what went wrong stands behind it.
IN_FOREACH_BATCH = """Traceback (most recent call last):
  File "job.py", line 9, in write
    batch.collect()
py4j.protocol.Py4JJavaError: An error occurred while calling o57.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times, most \
recent failure: Lost task 0.0 (TID 3): org.apache.spark.SparkException: Python worker exited \
unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:1)"""

PLAIN = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: the disk is gone
=== Streaming Query ==="""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (IN_A_TASK, "ArrowInvalid: Failed to parse string: 'x' as a scalar of type int32"),
        (IN_A_COMMIT, "Odd: of two lines:"),
        (CHAINED, "RuntimeError: commit failed"),
        ("ValueError: not a number: 'x'", "ValueError: not a number: 'x'"),
        (
            JAVA_IN_A_STREAM,
            "IOException: Mkdirs failed to create file:/proc/nope (exists=false)",
        ),
        (JAVA_CAUSES, "IOException: No space left on device"),
        (IN_FOREACH_BATCH, "SparkException: Python worker exited unexpectedly (crashed)"),
        (PLAIN, "Exception: the disk is gone"),
    ],
)
def test_line_with_the_cause_is_found(text: str, line: str) -> None:
    assert last_error(Exception(text)) == line


def test_cause_of_an_empty_error_is_found() -> None:
    python, jvm = Exception("Writing job failed."), Exception("Writing job failed.")
    python.__cause__ = Exception(IN_A_TASK)
    jvm._cause = Exception(JAVA_CAUSES)  # type: ignore[attr-defined]
    assert last_error(python).startswith("ArrowInvalid: ")
    assert last_error(jvm) == "IOException: No space left on device"


def test_error_of_a_query_is_found() -> None:
    """Also of a query of Spark Connect, which is not of PySpark's classic class."""
    assert last_error(SimpleNamespace(exception=lambda: None)) is None
    query = SimpleNamespace(exception=lambda: Exception(PLAIN))
    assert last_error(query) == "Exception: the disk is gone"


def test_leading_empty_line_is_skipped() -> None:
    """As Spark's parser words its errors."""
    error = ValueError("\n[UNSUPPORTED_DATATYPE] Unsupported data type LNG.\n== DataType ==\nLNG")
    assert last_error(error) == "ValueError: [UNSUPPORTED_DATATYPE] Unsupported data type LNG."


def test_error_without_text_has_a_name() -> None:
    assert last_error(AssertionError()) == "AssertionError: "
