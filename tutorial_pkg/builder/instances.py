"""The instances of a built source: threads in the driver's reader process.

The rows of a `fill` and the snapshot after it become one frame of the log, or none if it fails.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tutorial_pkg.builder.context import SourceContext, SplitContext
from tutorial_pkg.builder.frames import encode, head_of, snapshot_text
from tutorial_pkg.builder.functions import FunctionError, Functions, closing_with
from tutorial_pkg.builder.rows import Buffer, RowPacker
from tutorial_pkg.builder.status import KEY, InstanceStatus
from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.waiting import Tries
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import LogDamagedError, last_frame
from tutorial_pkg.durable_log.status import StatusPublisher

LEAST_PAUSE, MOST_PAUSE = 0.001, 0.05  # seconds, after a `fill` that added nothing; they double
STOP_SECONDS = 3.0
NOTABLE_SECONDS = 1.0  # the status shows an instance that is idle, or in a function, for longer

_log = logging.getLogger(__name__)


class Snapshots:
    """The last position of each instance, also after a crash.

    Every frame has the newest snapshot of its instance. Before any instance adds rows, the
    `fresh` snapshots of *all* are `saved` in a file, with the positions of their logs. So after a
    restart, a snapshot is in the last frame after that position, or else in the file.
    """

    def __init__(self, logs: LogGroup, count: int, used: bool) -> None:
        self.saved = False
        self._logs = logs
        self._file = logs.directory / "snapshots.json"
        if not used:
            self._file.unlink(missing_ok=True)  # it would become outdated
        self.fresh: list[Any] = [None] * count
        self.barrier = threading.Barrier(count, action=self._save)

    def last(self) -> list[Any]:
        """Return the newest snapshot of each instance; none before the first run."""
        if not self._file.is_file():
            self._check_never_written()
            return []
        start = json.loads(self._file.read_text())
        snapshots: list[Any] = start["snapshots"]
        for index, position in enumerate(start["positions"]):
            frame = last_frame(self._logs.of(index), position, self._logs.writers[index].end)
            if frame:
                snapshots[index] = head_of(frame[1])["snapshot"]
        return snapshots

    def _save(self) -> None:
        ends = self._logs.sync().positions
        positions = [ends[str(index)] for index in range(len(self.fresh))]
        content = {"snapshots": self.fresh, "positions": positions}
        replace_file(self._file, json.dumps(content))
        self.saved = True

    def _check_never_written(self) -> None:
        writers = self._logs.writers.items()
        frames = [last_frame(self._logs.of(number), log.first, log.end) for number, log in writers]
        heads = [head_of(frame[1]) for frame in frames if frame]
        if heads and all("snapshot" in head for head in heads):
            raise LogDamagedError(
                f"{self._file} is missing, so the source cannot resume without duplicating rows. "
                "Restore the file, or start with a new log and a new checkpoint"
            )


class Instance(threading.Thread):
    """Runs the functions of one instance. `inside` is the running one, and since when."""

    def __init__(
        self,
        functions: Functions,
        query: SplitContext,
        index: int,
        snapshots: Snapshots,
        logs: LogGroup,
    ) -> None:
        super().__init__(name=f"instance {index}", daemon=True)
        self.failure: BaseException | None = None
        self.status = InstanceStatus()
        self.stopping = threading.Event()
        self.added_at, self.idle_since = time.time(), time.monotonic()  # of the last row
        self.inside: tuple[str, float] | None = None
        self.appending = threading.Lock()
        self.abandoned = False  # then it must not append: the log is being closed
        self._functions, self._query = functions, query
        self._index, self._snapshots, self._logs = index, snapshots, logs
        self._log = logs.writers[index]
        self._buffer = Buffer.of(functions.format, query)
        self._state: Any = None
        self._retries = functions.retries.of(query.options)
        self._tries: Tries | None = None  # of starting over, since a turn succeeded

    def run(self) -> None:
        try:
            self._run_until_stopped()
        except threading.BrokenBarrierError:
            pass  # another instance has failed, and reports it
        except BaseException as failure:
            self.failure = failure
            self.status.last_error = str(failure)
            self._snapshots.barrier.abort()
        finally:
            self.status.running = False

    def _run_until_stopped(self) -> None:
        pause = 0.0
        while not self.stopping.wait(pause):
            try:
                return self._run_once()
            except FunctionError as failure:
                if self.status.closed or self.stopping.is_set():
                    raise
                self._tries = self._tries or self._retries.tries()
                pause = self._tries.pause_after(failure)
                _log.warning("%s; it is tried again", failure)
                self.status.retries += 1
                self.status.last_error = str(failure)
                self._drop_rows()

    def _drop_rows(self) -> None:
        """Drop unlogged rows. A source with snapshots or acknowledgements redelivers them."""
        rows = self._buffer.rows
        if rows and not {"snapshot", "acknowledge"} & self._functions.given.keys():
            text = "%s: %d rows that `fill` had added before it failed are not in the log"
            _log.warning(text, self.name, rows)
        self._buffer = Buffer.of(self._functions.format, self._query)
        self.status.unacknowledged = 0

    def _run_once(self) -> None:
        options = self._query.options
        context = SourceContext(self._index, options.parallelism, options)
        self._state = self._call("create", context)
        with closing_with(lambda: self._call("destroy", self._state)):
            self._restore()
            self._fill_until_stopped()

    def _restore(self) -> None:
        if "snapshot" not in self._functions:
            return
        if snapshots := self._snapshots.last():
            self._call("restore", self._state, snapshots)
        if not self._snapshots.saved:
            self._snapshots.fresh[self._index] = json.loads(self._head())["snapshot"]
            self._snapshots.barrier.wait()  # until those of all instances are on disk

    def _fill_until_stopped(self) -> None:
        pause = 0.0
        while not self.stopping.wait(pause) and not self._buffer.closed:
            if self._logs.full:
                pause = MOST_PAUSE
            else:
                added = self._fill()
                pause = 0.0 if added else min(2 * pause or LEAST_PAUSE, MOST_PAUSE)
                if self._buffer.connected:
                    self._tries = None
        self.status.closed = self._buffer.closed

    def _fill(self) -> bool:
        """Call `fill` once, log its rows, and acknowledge them. Return whether it added some."""
        returned = self._call("fill", self._state, self._buffer)
        with self._functions.blamed("fill", self.name):
            self._buffer.check_returned(returned)
            has_rows = self._buffer.rows > 0
            idle = time.monotonic() - self.idle_since
            if not has_rows and (heartbeat := self._functions.call("heartbeat", self.name, idle)):
                self._buffer.add(heartbeat)
            if self._buffer.keeps_place and "snapshot" not in self._functions:
                raise ValueError("`keep_place` was called, but there is no `snapshot`")
            batches, tokens = self._buffer.take("instance", self._index, self._log.end)
            if tokens and "acknowledge" not in self._functions:
                raise ValueError("a row was added with a token, but there is no `acknowledge`")
        self.status.dead_letters += self._buffer.dead_letters
        self._buffer.dead_letters = 0
        if batches:
            self._append(batches, self._head(after_rows=has_rows))
        if tokens:
            self.status.unacknowledged = len(tokens)
            self._log.sync()
            self._call("acknowledge", self._state, tokens)
            self.status.unacknowledged = 0
        return bool(has_rows or tokens)

    def _append(self, batches: Sequence[pa.RecordBatch], head: str) -> None:
        """Log rows and snapshot as one frame. Raise `SystemExit` if the instance was abandoned."""
        rows = sum(batch.num_rows for batch in batches)
        with self._functions.blamed("fill", self.name):
            payload = encode(batches, head)
        with self.appending:
            if self.abandoned:
                raise SystemExit("the log is closed")
            self._log.append(payload, rows, time.time_ns() // 1_000)
        self.added_at, self.idle_since = time.time(), time.monotonic()
        self.status.rows += rows
        self.status.bytes += len(payload)

    def _head(self, after_rows: bool = False) -> str:
        """Return the snapshot as JSON. After rows, None is not a valid position."""
        if "snapshot" not in self._functions:
            return "{}"
        snapshot = self._call("snapshot", self._state)
        with self._functions.blamed("snapshot", self.name):
            if snapshot is None and after_rows:
                raise ValueError(
                    "it returned None after rows were added, so a restart could not resume; is a "
                    "`return` missing?"
                )
            return snapshot_text(snapshot)

    def _call(self, name: str, *arguments: Any) -> Any:
        self.inside = name, time.monotonic()
        try:
            return self._functions.call(name, self.name, *arguments)
        finally:
            self.inside = None


class Instances:
    """Runs all instances until `close`; the producer of a log reader."""

    def __init__(self, functions: Functions, context: SplitContext, logs: LogGroup) -> None:
        if heartbeat := functions.call("heartbeat", "the source", math.inf):
            RowPacker(context.schema).pack([heartbeat])  # an error now, not at the first silence
        self._logs = logs
        count = context.options.parallelism
        self._snapshots = Snapshots(logs, count, "snapshot" in functions)
        self._all = [
            Instance(functions, context, index, self._snapshots, logs) for index in range(count)
        ]
        self._publisher = StatusPublisher(logs, KEY, self._statuses)
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
        self._snapshots.barrier.abort()
        deadline = time.monotonic() + STOP_SECONDS
        for instance in self._all:
            instance.join(max(0.0, deadline - time.monotonic()))
            if instance.is_alive():
                name = instance.inside[0] if instance.inside else "its thread"
                text = f"`{name}` did not return within {STOP_SECONDS:g} s, and was abandoned"
                with instance.appending:
                    instance.abandoned = True
                instance.status.last_error = text
                _log.warning("%s: %s", instance.name, text)
        self._publisher.stop()

    def _statuses(self) -> dict[int, InstanceStatus]:
        return {index: self._status(index) for index in range(len(self._all))}

    def _status(self, index: int) -> InstanceStatus:
        instance, now = self._all[index], time.monotonic()
        inside, idle = instance.inside, now - instance.idle_since >= NOTABLE_SECONDS
        return replace(
            instance.status,
            backlog_bytes=self._logs.backlog(index),
            idle_since=instance.added_at if idle else None,
            inside=inside[0] if inside and now - inside[1] >= NOTABLE_SECONDS else None,
        )
