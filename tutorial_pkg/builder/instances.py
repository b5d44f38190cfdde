"""All instances of a built source: how they start together, stop, and report how they are doing."""

from __future__ import annotations

import copy
import logging
import threading
import time
from dataclasses import replace
from typing import Any

from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.instance import Instance, Plan
from tutorial_pkg.builder.snapshots import forget_snapshots, last_snapshots, save_snapshots
from tutorial_pkg.builder.status import InstanceStatus, status_file
from tutorial_pkg.durable_log.group import Backlog, LogGroup
from tutorial_pkg.durable_log.status import StatusPublisher

STOP_SECONDS = 3.0
NOTABLE_SECONDS = 1.0  # how long an instance may be silent, or in a function, without a word

_log = logging.getLogger(__name__)


class TogetherAtStart:
    """The `Start` of all instances: none fills before the snapshots of all are on disk."""

    def __init__(self, logs: LogGroup, count: int) -> None:
        self._logs = logs
        self._last: list[Any] | None = last_snapshots(logs)
        self._fresh: list[Any] = [None] * count
        self._barrier = threading.Barrier(count, action=self._save)

    def snapshots(self) -> list[Any]:
        """A list of the caller's own, who may change it."""
        return last_snapshots(self._logs) if self._last is None else copy.deepcopy(self._last)

    def wait(self, index: int, snapshot: Any) -> None:
        self._fresh[index] = snapshot
        self._barrier.wait()

    def give_up(self) -> None:
        self._barrier.abort()

    def _save(self) -> None:
        save_snapshots(self._logs, self._fresh)
        self._last = None  # the logs have newer ones from now on


class Instances:
    """Runs them from its making until `close`; the producer of a log reader."""

    def __init__(self, plan: Plan, logs: LogGroup, backlog: Backlog, count: int) -> None:
        self._backlog = backlog
        if "snapshot" not in plan.functions:
            forget_snapshots(logs.directory)
        self._start = TogetherAtStart(logs, count)
        contexts = [SourceContext(index, count, plan.options) for index in range(count)]
        self._all = [Instance(plan, each, self._start, backlog) for each in contexts]
        repairs = [log.repair for log in logs.writers.values() if log.repair]
        self._publisher = StatusPublisher(status_file(logs.directory), self._statuses, repairs)
        for thread in (*self._all, self._publisher):
            thread.start()

    @property
    def ended(self) -> bool:
        """Whether all have closed their buffers: what they added is in the log."""
        return all(instance.status.closed for instance in self._all)

    def raise_failure(self) -> None:
        for instance in self._all:
            if instance.failure:
                raise instance.failure

    def close(self) -> None:
        """Have all instances end; one that is stuck in a function is left there, and named."""
        for instance in self._all:
            instance.stopping.set()
        self._start.give_up()
        deadline = time.monotonic() + STOP_SECONDS
        for instance in self._all:
            instance.join(max(0.0, deadline - time.monotonic()))
            if instance.is_alive():
                self._leave(instance)
        self._publisher.stop()

    def _leave(self, instance: Instance) -> None:
        instance.abandon()
        name = instance.inside[0] if instance.inside else "its thread"
        text = f"`{name}` did not come back within {STOP_SECONDS:g} s; the query ended without it"
        instance.status.last_error = text
        _log.warning("%s: %s", instance.name, text)

    # ---- What `builder_status` reads

    def _statuses(self) -> dict[int, InstanceStatus]:
        return {index: self._status(index) for index in range(len(self._all))}

    def _status(self, index: int) -> InstanceStatus:
        instance, inside = self._all[index], self._all[index].inside
        silent = time.monotonic() - instance.silent_since >= NOTABLE_SECONDS
        long_inside = inside and time.monotonic() - inside[1] >= NOTABLE_SECONDS
        return replace(
            instance.status,
            backlog_bytes=self._backlog.of(index),
            idle_since=instance.added_at if silent else None,
            inside=inside[0] if inside and long_inside else None,
        )
