"""All instances of a built source: how they start, stop, and report their status."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.instance import Instance, Plan
from tutorial_pkg.builder.snapshots import Snapshots
from tutorial_pkg.builder.status import InstanceStatus, status_file
from tutorial_pkg.durable_log.group import Backlog, LogGroup
from tutorial_pkg.durable_log.status import StatusPublisher

STOP_SECONDS = 3.0
NOTABLE_SECONDS = 1.0  # the status shows an instance that is idle, or in a function, for longer

_log = logging.getLogger(__name__)


class Instances:
    """Runs all instances until `close`; the producer of a log reader."""

    def __init__(self, plan: Plan, logs: LogGroup, backlog: Backlog, count: int) -> None:
        self._backlog = backlog
        self._snapshots = Snapshots(logs, count, "snapshot" in plan.functions)
        contexts = [SourceContext(index, count, plan.options) for index in range(count)]
        self._all = [Instance(plan, context, self._snapshots, backlog) for context in contexts]
        repairs = [log.repair for log in logs.writers.values() if log.repair]
        self._publisher = StatusPublisher(status_file(logs.directory), self._statuses, repairs)
        for thread in (*self._all, self._publisher):
            thread.start()

    @property
    def ended(self) -> bool:
        """Whether all instances have closed their buffers, so that all their rows are logged."""
        return all(instance.status.closed for instance in self._all)

    def raise_failure(self) -> None:
        for instance in self._all:
            if instance.failure:
                raise instance.failure

    def close(self) -> None:
        """Stop all instances. Abandon and report those that do not return in time."""
        for instance in self._all:
            instance.stopping.set()
        self._snapshots.abort()
        deadline = time.monotonic() + STOP_SECONDS
        for instance in self._all:
            instance.join(max(0.0, deadline - time.monotonic()))
            if instance.is_alive():
                name = instance.inside[0] if instance.inside else "its thread"
                text = f"`{name}` did not return within {STOP_SECONDS:g} s, and was abandoned"
                instance.abandon()
                instance.status.last_error = text
                _log.warning("%s: %s", instance.name, text)
        self._publisher.stop()

    def _statuses(self) -> dict[int, InstanceStatus]:
        return {index: self._status(index) for index in range(len(self._all))}

    def _status(self, index: int) -> InstanceStatus:
        instance, inside = self._all[index], self._all[index].inside
        idle = time.monotonic() - instance.idle_since >= NOTABLE_SECONDS
        stuck = inside and time.monotonic() - inside[1] >= NOTABLE_SECONDS
        return replace(
            instance.status,
            backlog_bytes=self._backlog.of(index),
            idle_since=instance.added_at if idle else None,
            inside=inside[0] if inside and stuck else None,
        )
