"""`pyarrow.compute`, imported when a function of it is first used.

Spark starts a Python process to make a source, another to plan its reading, a third to ask it what
is new. They import the connector and compute nothing, and this module takes a tenth of their CPU.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pyarrow.compute"), name)
