"""What this package does once in each Python worker process of Spark."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Spare this worker process the walk through all that its imports have made.

    PySpark collects garbage after every task. That looks at each object of each imported module:
    some 15 ms a task, as long as reading 40,000 lines. What is there when the first task begins
    stays until the process ends anyway; from now on the collector leaves it alone.
    """
    gc.collect()
    gc.freeze()
