"""last_error(): the line that matters in Spark's pages of stack traces."""

from __future__ import annotations

import re
from typing import Any

# These come from outside; every other exception is the connector's or the description's.
FROM_OUTSIDE = (KeyboardInterrupt, GeneratorExit)

_NOT_A_CALL = "(?!Py4JJavaError: An error occurred while calling)"  # the JVM's own error follows
# The line after the indented lines of a Python stack trace: `module.Class: text`.
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?"
    rf"(?:[\w<>]+\.)*{_NOT_A_CALL}(\w+(?:: .*)?)$",
    re.M,
)
# An error without its trace, on its own line.
_PYTHON_BARE = re.compile(rf"^(?:\w+\.)*{_NOT_A_CALL}(\w*(?:Error|Exception): .+)$", re.M)
# The last error in `org.apache.spark.SparkException: Job aborted …: java.io.IOException: no room`.
_JAVA = re.compile(rf".*\b(?:[a-z]\w*\.)+{_NOT_A_CALL}(\w*(?:Exception|Error): .+)")
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: ")


def last_error(failed: Any) -> str | None:
    """Return what went wrong in one readable line, or None if nothing did.

    `failed` is a streaming query, also of Spark Connect, or an exception that Spark raised. The
    line is that of the innermost Python error or, without one, of the JVM's innermost error.
    """
    if not (errors := _chain(failed)):
        return None
    text = "\n".join(map(str, errors))
    if python := _PYTHON.findall(text) or _PYTHON_BARE.findall(text):
        return str(python[-1]).strip()
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    if java := _JAVA.search(causes[-1] if causes else text):
        return java[1].strip()
    first_line = str(errors[0]).strip().partition("\n")[0]
    return f"{type(errors[0]).__name__}: {_QUERY_FAILED.sub('', first_line)}"


def trace_of(failed: Any) -> str:
    """Return the texts of an error and of its causes, with the stack traces in them."""
    return "\n".join(map(str, _chain(failed)))


def _chain(failed: Any) -> list[BaseException]:
    """Return the error and its causes; PySpark keeps the JVM's causes in its own attribute."""
    chain = []
    error = failed if isinstance(failed, BaseException) else failed.exception()
    while error is not None:
        chain.append(error)
        error = error.__cause__ or getattr(error, "_cause", None)
    return chain
