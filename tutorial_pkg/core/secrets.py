"""Secrets in options: a value may name an environment variable instead of holding the secret."""

from __future__ import annotations

import os
import re

from tutorial_pkg.core.options import taking

_REFERENCE = re.compile(r"\$\{env:(\w+)\}")


@taking("a text; `${env:NAME}` in it is an environment variable that is set for the driver")
def secret(text: str) -> str:
    """A parser that puts environment variables in: `${env:NAME}`, as in Kafka's own settings.

    So the secret itself is in no program, no plan and no log; the text that is quoted by an error
    is the reference. Spark's Python processes have the environment that Spark was started with.
    Raises `ValueError` for a variable that is not set.
    """
    missing = [name for name in _REFERENCE.findall(text) if name not in os.environ]
    if missing:
        raise ValueError
    return _REFERENCE.sub(lambda found: os.environ[found[1]], text)
