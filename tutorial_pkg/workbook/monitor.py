"""One CPU monitor for each process: to make one takes a tenth of a second."""

from __future__ import annotations

from functools import cache

from tutorial_pkg.connectors.cpu_log import CpuMonitor


@cache
def cpu_monitor() -> CpuMonitor:
    """This process's monitor, the same one at each call.

    The cache is of an installed module, so it lives as long as the worker process; that of a
    function in a notebook would travel with each task, and be empty there.
    """
    return CpuMonitor()
