"""last_error(): Spark wraps what went wrong in pages of stack traces; this finds the line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# What comes from outside, whatever a user's function does; all else is the function's error.
NOT_THEIRS = (KeyboardInterrupt, GeneratorExit)

# The line behind a Python stack trace, whose own lines are indented: `module.Class: text`.
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?(?:[\w<>]+\.)*(\w+(?:: .*)?)$", re.M
)
# One without its trace, on a line of its own.
_PYTHON_BARE = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception): .+)$", re.M)
# `org.apache.spark.SparkException: Job aborted …: java.io.IOException: no room`: the last of them.
_JAVA = re.compile(r".*\b(?:[a-z]\w*\.)+(\w*(?:Exception|Error): .+)")
_CALLED = "Py4JJavaError: An error occurred while calling"
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: ")


def last_error(failed: Any) -> str | None:
    """What went wrong, in one readable line; None when nothing did.

    `failed` is a streaming query (of Spark Connect, too) or an exception that Spark raised.
    The line is that of the innermost Python error or, without one, of the JVM's innermost error.
    """
    error = failed if isinstance(failed, BaseException) else failed.exception()
    if error is None:
        return None
    text = "\n".join(map(str, _causes(error)))
    found = [
        line
        for line in _PYTHON.findall(text) or _PYTHON_BARE.findall(text)
        if not line.startswith(_CALLED)  # what went wrong stands behind it, in the JVM's words
    ]
    return str(found[-1]).strip() if found else _error_of_java(error, text)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it; PySpark keeps the JVM's causes in an attribute of its own."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or getattr(cause, "_cause", None)


def _error_of_java(error: BaseException, text: str) -> str:
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    found = _JAVA.findall(causes[-1] if causes else text)
    told = [line for line in found if not line.startswith(_CALLED)]
    if told:
        return str(told[0]).strip()
    return f"{type(error).__name__}: {_QUERY_FAILED.sub('', str(error).strip().splitlines()[0])}"
