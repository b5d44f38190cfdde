"""Spark's daemon for Python processes, with less work beside the tests' own.

PySpark collects garbage after each task, and walks through all imported modules each time: a fifth
of the CPU time of a query whose source is a few lines of Python. When the daemon ends, Python would
clear away what ends with it.
"""

import gc
import os
from types import SimpleNamespace

from pyspark import daemon


def collect() -> None:
    """After the first task of a process, leave out what is alive then."""
    gc.collect()
    if not gc.get_freeze_count():
        gc.freeze()


if __name__ == "__main__":
    daemon.gc = SimpleNamespace(collect=collect)
    try:
        daemon.manager()
    finally:
        os._exit(0)
