"""`pyarrow.compute`, imported when a function of it is first used.

Spark starts several Python processes per source that import the connector and compute nothing. The
import takes a tenth of their CPU time.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pyarrow.compute"), name)
