"""`pyarrow.compute`, imported on first use: that takes a tenth of a source process's CPU time."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pyarrow.compute"), name)
