"""The status of a built source's instances, in a small file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tutorial_pkg.durable_log.status import read_status

KEY = "instances"


@dataclass
class InstanceStatus:
    """The status of one instance; the numbers count from the start of its query.

    `rows` and `bytes` are in the log, `dead_letters` in the folder of the option `deadLetters`, and
    `unacknowledged` rows are not yet acknowledged. `idle_since` (seconds since 1970) is set after a
    second without rows, `inside` if a function has been running for a second. `retries` counts how
    often it started over after a transient error.
    """

    running: bool = True
    closed: bool = False
    rows: int = 0
    bytes: int = 0
    backlog_bytes: int = 0
    dead_letters: int = 0
    unacknowledged: int = 0
    retries: int = 0
    idle_since: float | None = None
    inside: str | None = None
    last_error: str | None = None


@dataclass(frozen=True)
class BuilderStatus:
    """The status of all instances of one log. Printed, it has a line for each.

    `process` runs them, or is None if it has ended. `warnings` report repairs of the log.
    """

    path: Path
    process: int | None
    instances: dict[int, InstanceStatus]
    warnings: list[str]

    @property
    def running(self) -> bool:
        """Whether there are instances, and all of them are running or closed."""
        statuses = self.instances.values()
        return bool(statuses) and all(status.running or status.closed for status in statuses)

    def __str__(self) -> str:
        if not self.instances:
            return f"No query has filled the log {self.path} yet."
        lines = [_instance_text(index, status) for index, status in self.instances.items()]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def builder_status(path: str | Path) -> BuilderStatus:
    """Return the status of the source with the log `path`, at most half a second old.

    It reads a file, so it works at any time, even if no query is running.
    """
    directory, process, instances, warnings = read_status(path, KEY, InstanceStatus)
    if process is None:
        for instance in instances.values():
            instance.running = False
    return BuilderStatus(directory, process, instances, warnings)


def _instance_text(index: int, instance: InstanceStatus) -> str:
    state = "running" if instance.running else "closed" if instance.closed else "not running"
    parts = [f"{instance.rows} rows, {instance.bytes} bytes"]
    if instance.running:
        parts.append(f"backlog {instance.backlog_bytes} bytes")
    if instance.unacknowledged:
        parts.append(f"{instance.unacknowledged} not acknowledged")
    if instance.dead_letters:
        parts.append(f"{instance.dead_letters} dead letters")
    if instance.running and instance.idle_since:
        since = datetime.fromtimestamp(instance.idle_since).strftime("%H:%M:%S")
        parts.append(f"idle since {since}")
    if instance.inside:
        parts.append(f"inside `{instance.inside}`")
    if instance.retries:
        parts.append(f"retried {instance.retries} times")
    if instance.last_error:
        parts.append(f"last error: {instance.last_error}")
    return f"Instance {index}: {state}; {', '.join(parts)}"
