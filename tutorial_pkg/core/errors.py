"""last_error(): find the line that matters in Spark's pages of stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Interruptions from outside; everything else is an error of the user's function.
NOT_THEIRS = (KeyboardInterrupt, GeneratorExit)

# The line after a Python stack trace (its own lines are indented): `module.Class: text`.
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?(?:[\w<>]+\.)*(\w+(?:: .*)?)$", re.M
)
# An error without its trace, alone on a line.
_PYTHON_BARE = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception): .+)$", re.M)
# `org.apache.spark.SparkException: Job aborted …: java.io.IOException: no room`: the last of them.
_JAVA = re.compile(r".*\b(?:[a-z]\w*\.)+(\w*(?:Exception|Error): .+)")
_CALLED = "Py4JJavaError: An error occurred while calling"
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
    lines = [
        line
        for line in _PYTHON.findall(text) or _PYTHON_BARE.findall(text)
        if not line.startswith(_CALLED)  # the JVM's own error follows
    ]
    return str(lines[-1]).strip() if lines else _error_of_java(error, text)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or getattr(cause, "_cause", None)  # of the JVM


def _error_of_java(error: BaseException, text: str) -> str:
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    lines = _JAVA.findall(causes[-1] if causes else text)
    lines = [line for line in lines if not line.startswith(_CALLED)]
    if lines:
        return str(lines[0]).strip()
    return f"{type(error).__name__}: {_QUERY_FAILED.sub('', str(error).strip().splitlines()[0])}"
