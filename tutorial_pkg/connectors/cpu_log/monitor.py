"""The CPU load of the machine, as a fraction that does not flicker."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path

from tutorial_pkg.core.imports import extra

REFERENCE_SECONDS = 1.0
FIRST_SECONDS = 0.1
LEAST_CPU_SECONDS = 0.05  # the kernel counts in ticks of 10 ms, so less means nothing


def cpu_seconds() -> tuple[float, float]:
    """Return busy seconds and all seconds, summed over the cores, since the machine started."""
    if sys.platform == "linux":
        first = Path("/proc/stat").read_text().partition("\n")[0]
        ticks = [int(count) / os.sysconf("SC_CLK_TCK") for count in first.split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # without idle and iowait
    with extra("processes"):
        import psutil
    times = psutil.cpu_times()
    return sum(times) - times.idle, sum(times)


class CpuMonitor:
    """Measures the machine's busy fraction, 0..1, since a recent reference reading.

    The reference is renewed at most once a second, so that every measurement covers enough time.
    The constructor takes a tenth of a second, so that the first `usage()` is a measurement, too.
    The idea is from the `CpuMonitor` of Hazelcast Jet's tutorial on custom sinks.
    """

    def __init__(self) -> None:
        self._last = 0.0
        self._renew(cpu_seconds())
        time.sleep(FIRST_SECONDS)

    def usage(self) -> float:
        """Return the busy fraction since the reference; right after a renewal, the last one."""
        busy, total = cpu_seconds()
        elapsed = total - self._total
        if elapsed >= LEAST_CPU_SECONDS:
            # The counters of some kernels step back by a tick.
            self._last = min(1.0, max(0.0, (busy - self._busy) / elapsed))
        if time.monotonic() > self._since + REFERENCE_SECONDS:
            self._renew((busy, total))
        return self._last

    def _renew(self, reading: tuple[float, float]) -> None:
        self._busy, self._total = reading
        self._since = time.monotonic()


@cache
def cpu_monitor() -> CpuMonitor:
    """Return the monitor of this process. Spark reuses its workers, so it serves many tasks."""
    return CpuMonitor()
