"""last_error(): find the line that matters in Spark's pages of stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Interruptions from outside; everything else is an error of the user's function.
NOT_THEIRS = (KeyboardInterrupt, GeneratorExit)

_NOT_A_CALL = "(?!Py4JJavaError: An error occurred while calling)"  # the JVM's own error follows
# The line after a Python stack trace (its own lines are indented): `module.Class: text`.
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?"
    rf"(?:[\w<>]+\.)*{_NOT_A_CALL}(\w+(?:: .*)?)$",
    re.M,
)
# An error without its trace, alone on a line.
_PYTHON_BARE = re.compile(rf"^(?:\w+\.)*{_NOT_A_CALL}(\w*(?:Error|Exception): .+)$", re.M)
# `org.apache.spark.SparkException: Job aborted …: java.io.IOException: no room`: the last of them.
_JAVA = re.compile(rf".*\b(?:[a-z]\w*\.)+{_NOT_A_CALL}(\w*(?:Exception|Error): .+)")
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: ")


def last_error(failed: Any) -> str | None:
    """Return the cause of a failure in one readable line, or None if there is none.

    `failed` is a streaming query (of Spark Connect, too) or an exception that Spark raised.
    The line is that of the innermost Python error or, without one, of the JVM's innermost error.
    """
    error = failed if isinstance(failed, BaseException) else failed.exception()
    if error is None:
        return None
    text = "\n".join(map(str, _causes(error)))
    if python := _PYTHON.findall(text) or _PYTHON_BARE.findall(text):
        return str(python[-1]).strip()
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    if java := _JAVA.search(causes[-1] if causes else text):
        return java[1].strip()
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {_QUERY_FAILED.sub('', first_line)}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or getattr(cause, "_cause", None)  # of the JVM
