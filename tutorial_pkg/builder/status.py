"""How the instances of a built source are doing, in a small file that anyone may read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tutorial_pkg.durable_log.status import StatusFile


@dataclass
class InstanceStatus:
    """One instance, counted since its query's start; `rows` and `bytes` are in the log.

    `idle_since` is when it last added a row, or was created, in seconds since 1970, once that is a
    second ago. `inside` is the function that has not returned for a second. `unacknowledged` counts
    the tokens of rows that were not acknowledged to the source yet. `retries` is how often it
    started over after an error that may pass, and `last_error` what went wrong last, perhaps in an
    `acknowledge` that is tried again.
    """

    running: bool = True
    closed: bool = False
    rows: int = 0
    bytes: int = 0
    backlog_bytes: int = 0
    unacknowledged: int = 0
    retries: int = 0
    idle_since: float | None = None
    inside: str | None = None
    last_error: str | None = None


@dataclass(frozen=True)
class BuilderStatus:
    """All instances of one log. Printed, it is a line for each.

    `process` is the process that they run in, or None if it is gone; `warnings` say what was
    repaired in the log.
    """

    path: Path
    process: int | None
    instances: dict[int, InstanceStatus]
    warnings: list[str]

    @property
    def running(self) -> bool:
        """Whether there are instances, and all of them run or have come to their end."""
        each = self.instances.values()
        return bool(each) and all(one.running or one.closed for one in each)

    def __str__(self) -> str:
        if not self.instances:
            return f"No query has filled the log {self.path} yet."
        lines = [_instance_text(index, each) for index, each in self.instances.items()]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def builder_status(path: str | Path) -> BuilderStatus:
    """The state of the source that fills the log `path`, at most half a second old.

    It only looks at files, so it can be asked at any time, even when no query runs. Raises
    `ValueError` when the status file is damaged.
    """
    directory = Path(path)
    published = status_file(directory).read()
    if published.process is None:
        for instance in published.each.values():
            instance.running = False
    return BuilderStatus(directory, published.process, published.each, published.warnings)


def status_file(directory: Path) -> StatusFile[InstanceStatus]:
    """The file of the log in `directory`."""
    return StatusFile(directory, "instances", InstanceStatus)


def _instance_text(index: int, instance: InstanceStatus) -> str:
    state = "running" if instance.running else "closed" if instance.closed else "not running"
    parts = [f"{instance.rows} rows, {instance.bytes} bytes"]
    if instance.running:
        parts.append(f"backlog {instance.backlog_bytes} bytes")
    if instance.unacknowledged:
        parts.append(f"{instance.unacknowledged} not acknowledged")
    if instance.running and instance.idle_since:
        since = datetime.fromtimestamp(instance.idle_since).strftime("%H:%M:%S")
        parts.append(f"idle since {since}")
    if instance.inside:
        parts.append(f"inside `{instance.inside}`")
    if instance.retries:
        parts.append(f"began anew {instance.retries} times")
    if instance.last_error:
        parts.append(f"last error: {instance.last_error}")
    return f"Instance {index}: {state}; {', '.join(parts)}"
