"""The CPU monitor under a clock and counters that the test moves."""

from __future__ import annotations

from collections import namedtuple

import psutil
import pytest

from tutorial_pkg.connectors.cpu_log.monitor import REFERENCE_SECONDS, CpuMonitor

Times = namedtuple("Times", "user system idle iowait guest", defaults=(0.0,) * 5)


class Machine:
    """A machine whose clock and counters stand still until they are moved."""

    def __init__(self) -> None:
        self.now, self.busy, self.idle = 1000.0, 10.0, 10.0

    def pass_by(self, seconds: float, busy: float) -> None:
        self.now += seconds
        self.busy += seconds * busy
        self.idle += seconds * (1 - busy)

    def monitor(self) -> CpuMonitor:
        return CpuMonitor(lambda: self.now, lambda: Times(user=self.busy, idle=self.idle))


def test_usage_is_the_busy_fraction_since_the_reference() -> None:
    machine = Machine()
    monitor = machine.monitor()
    machine.pass_by(0.5, busy=0.25)
    assert monitor.usage() == pytest.approx(0.25)


def test_the_reference_holds_for_a_second_and_is_then_renewed() -> None:
    machine = Machine()
    monitor = machine.monitor()
    machine.pass_by(0.5, busy=1.0)
    assert monitor.usage() == pytest.approx(1.0)
    machine.pass_by(0.5, busy=0.0)
    assert monitor.usage() == pytest.approx(0.5), "still compared with the start"
    machine.pass_by(REFERENCE_SECONDS, busy=0.5)
    assert monitor.usage() == pytest.approx(0.5), "the reading that renews covers it all"
    machine.pass_by(0.1, busy=0.0)
    assert monitor.usage() == pytest.approx(0.0), "compared with the renewed reference"


def test_without_time_passed_the_last_value_stands() -> None:
    machine = Machine()
    monitor = machine.monitor()
    assert monitor.usage() == 0.0
    machine.pass_by(2.0, busy=0.75)
    assert monitor.usage() == monitor.usage() == pytest.approx(0.75)


def test_right_after_a_renewal_the_last_value_stands() -> None:
    machine = Machine()
    monitor = machine.monitor()
    machine.pass_by(1.5, busy=0.5)
    assert monitor.usage() == pytest.approx(0.5)
    machine.pass_by(0.01, busy=1.0)
    assert monitor.usage() == pytest.approx(0.5), "a single tick would say that all is busy"


def test_counters_that_step_back_never_leave_zero_to_one() -> None:
    machine = Machine()
    monitor = machine.monitor()
    machine.busy -= 1.0
    machine.idle += 2.0
    assert monitor.usage() == 0.0
    machine.idle -= 4.0
    machine.busy += 4.0
    assert monitor.usage() == 1.0


def test_waiting_is_idle_and_guest_time_is_not_counted_twice() -> None:
    readings = iter([Times(), Times(user=3.0, guest=3.0, idle=1.0, iowait=4.0)])
    monitor = CpuMonitor(lambda: 0.0, lambda: next(readings))
    assert monitor.usage() == pytest.approx(3.0 / 8.0)


def test_the_real_machine_answers_within_zero_and_one() -> None:
    monitor = CpuMonitor()
    start = sum(psutil.cpu_times())
    while sum(psutil.cpu_times()) < start + 0.1:
        pass
    assert 0.0 < monitor.usage() <= 1.0, "this test itself keeps a core busy"
