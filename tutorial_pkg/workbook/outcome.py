"""Try a call whose outcome a reader is to predict: the code above must not give it away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

LONGEST = 300  # characters


def outcome(call: Callable[[], Any]) -> str:
    """`it works`, or the error of the call: its first sentence, of at most 300 characters."""
    try:
        with redirect_stderr(StringIO()):  # Spark prints the whole trace, too
            call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition('. Please')[0]}"[:LONGEST]
    return "it works"
