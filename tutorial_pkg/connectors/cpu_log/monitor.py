"""How busy the machine is, as a fraction that does not flicker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tutorial_pkg.core.extras import extra

REFERENCE_SECONDS = 1.0
FIRST_SECONDS = 0.1
LEAST_CPU_SECONDS = 0.05  # the kernel counts in ticks of 10 ms: one or two of them say nothing


class LinuxTimes(NamedTuple):
    """Seconds of all cores since the machine started; those for guests are in `user`, too."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float
    guest: float
    guest_nice: float


if sys.platform == "linux":

    def cpu_times() -> Any:
        """What the kernel has counted so far."""
        first = Path("/proc/stat").read_text().partition("\n")[0]
        ticks = map(int, first.split()[1:11])
        return LinuxTimes(*(count / os.sysconf("SC_CLK_TCK") for count in ticks))

else:
    with extra("processes"):
        from psutil import cpu_times


class CpuMonitor:
    """The machine's busy fraction, 0..1, measured since a recent reference.

    The reference is renewed at most once a second: readings taken more often than that compare
    with the same reference, so that each covers enough time to mean something. Making one
    takes a tenth of a second, so that the first reading is a measurement too.
    `clock` (seconds), `cpu_times` and `sleep` can be replaced, so that tests can move them.
    The idea is the `CpuMonitor` of Hazelcast Jet's tutorial on custom sinks.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_times: Callable[[], Any] = cpu_times,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._cpu_times = cpu_times
        self._last = 0.0
        self._renew(self._reading())
        sleep(FIRST_SECONDS)

    def usage(self) -> float:
        """The busy fraction since the reference; the last known one right after its renewal."""
        busy, total = self._reading()
        elapsed = total - self._total
        if elapsed >= LEAST_CPU_SECONDS:
            # Counters of some kernels step back by a tick; a fraction must not.
            self._last = min(1.0, max(0.0, (busy - self._busy) / elapsed))
        if self._clock() > self._since + REFERENCE_SECONDS:
            self._renew((busy, total))
        return self._last

    def _renew(self, reading: tuple[float, float]) -> None:
        self._busy, self._total = reading
        self._since = self._clock()

    def _reading(self) -> tuple[float, float]:
        """Seconds busy and seconds in all, summed over the cores since the machine started."""
        times = self._cpu_times()
        # Linux counts guest time inside user time; adding it would count it twice.
        guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        total = sum(times) - guest
        idle = times.idle + getattr(times, "iowait", 0.0)
        return total - idle, total


@cache
def cpu_monitor() -> CpuMonitor:
    """This process's monitor, the same one at each call: Spark reuses its workers.

    The cache is of an installed module, so it lives as long as the process; that of a function in
    a notebook would travel with each task, and be empty there.
    """
    return CpuMonitor()
