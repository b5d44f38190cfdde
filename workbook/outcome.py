"""Try a call whose outcome a reader is to predict: the code above must not give it away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

from tutorial_pkg.core.errors import last_error

LONGEST = 300  # characters


def outcome(call: Callable[[], Any]) -> str:
    """`it works`, or the line of the call's error that matters, cut after 300 characters."""
    try:
        with redirect_stderr(StringIO()):  # Spark prints the whole trace, too
            call()
    except Exception as error:
        return str(last_error(error)).partition(". Please")[0][:LONGEST]
    return "it works"
