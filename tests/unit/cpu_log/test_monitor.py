"""The CPU monitor, with a clock and counters that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from tutorial_pkg.connectors.cpu_log import monitor
from tutorial_pkg.connectors.cpu_log.monitor import REFERENCE_SECONDS, CpuMonitor, cpu_seconds


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.busy, self.total = 1000.0, 10.0, 20.0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=lambda seconds: None)
        monkeypatch.setattr(monitor, "time", clock)
        monkeypatch.setattr(monitor, "cpu_seconds", lambda: (self.busy, self.total))
        self.monitor = CpuMonitor()

    def run(self, seconds: float, busy: float) -> float:
        """Let time pass, and return the usage that the monitor then reports."""
        self.now += seconds
        self.busy += seconds * busy
        self.total += seconds
        return self.monitor.usage()


def test_usage_is_measured_since_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert machine.monitor.usage() == 0.0
    assert machine.run(0.5, busy=1.0) == pytest.approx(1.0)
    assert machine.run(0.5, busy=0.0) == pytest.approx(0.5)
    assert machine.run(REFERENCE_SECONDS, busy=0.5) == pytest.approx(0.5)
    assert machine.run(0.01, busy=1.0) == pytest.approx(0.5), "too little time for a measurement"
    assert machine.run(0.09, busy=0.0) == pytest.approx(0.1)
    machine.busy -= 1.0  # the counters of some kernels step back
    machine.total += 1.0
    assert machine.monitor.usage() == 0.0


def test_linux_counters_are_those_of_psutil() -> None:
    busy, total = cpu_seconds()
    times = psutil.cpu_times()
    guests = times.guest + times.guest_nice  # included in user time
    assert total == pytest.approx(sum(times) - guests, abs=5)
    assert busy == pytest.approx(sum(times) - guests - times.idle - times.iowait, abs=5)
