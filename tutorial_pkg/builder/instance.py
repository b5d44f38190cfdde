"""One instance of a built source, a thread in the driver's reader process.

Its life: `create`, `restore`, then `fill` again and again, each followed by `snapshot` and one
frame in the log, and at the end `destroy`. Nothing of a `fill` that fails is in the log.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.frames import encode, snapshot_text
from tutorial_pkg.builder.functions import FunctionError, Functions, closing_with
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.status import InstanceStatus
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.pauses import Tries
from tutorial_pkg.durable_log.group import Backlog

LEAST_PAUSE, MOST_PAUSE = 0.001, 0.05  # seconds, after a `fill` that added nothing; they double
RETRY_SECONDS = 0.5
GIVE_UP_SECONDS = 30.0  # then the query ends; what was not acknowledged comes again

_NO_PLACE = (
    "it returned None behind rows, so a restart could not tell that they came; does it lack a "
    "`return`?"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What all instances of a source have in common."""

    functions: Functions
    packer: RowPacker
    options: OptionValues
    heartbeat: tuple[str, float] | None  # column and seconds


class Start(Protocol):
    """The moment when all instances have been created and restored."""

    def snapshots(self) -> list[Any]:
        """Those of the last run, one for each instance that it had."""

    def wait(self, index: int, snapshot: Any) -> None:
        """Return when all instances are here. Raises `BrokenBarrierError` if one cannot come."""

    def give_up(self) -> None:
        """This instance will not come."""


class Instance(threading.Thread):
    """`failure` is what ended it, `status` its counters."""

    def __init__(self, plan: Plan, context: SourceContext, start: Start, backlog: Backlog) -> None:
        super().__init__(name=f"instance {context.index}", daemon=True)
        self.failure: BaseException | None = None
        self.status = InstanceStatus()
        self.stopping = threading.Event()
        self.added_at = time.time()
        self.silent_since = time.monotonic()  # the same, by a clock that nobody sets
        self.inside: tuple[str, float] | None = None  # a function, and since when
        self._plan, self._context, self._start, self._backlog = plan, context, start, backlog
        self._log = backlog.logs[context.index]
        self._buffer = Buffer(plan.packer)
        self._state: Any = None
        self._tokens: list[Any] = []  # of rows that are in the log
        self._telling: Tries | None = None  # of an `acknowledge` that has failed
        self._acknowledge_at = 0.0
        self._retries = plan.functions.retries.of(plan.options)
        self._tries: Tries | None = None  # since the last `fill` that came to its end
        self._rest = 0.0  # seconds until it begins
        self._has_begun, self._begins_anew = False, True
        self._appending = threading.Lock()
        self._abandoned = False

    def run(self) -> None:
        try:
            self._live_on()
        except threading.BrokenBarrierError:
            pass  # another instance could not be created, and tells why
        except BaseException as failure:  # for the query, which asks for it
            self.failure = failure
            self.status.last_error = str(failure)
            self._start.give_up()
        finally:
            self.status.running = False

    def abandon(self) -> None:
        """Append and acknowledge no more: a function has not come back, and the log closes now."""
        with self._appending:
            self._abandoned = True

    def _live_on(self) -> None:
        """After an error that may pass it begins anew, as after a restart of the query."""
        while not self.stopping.wait(self._rest):
            try:
                return self._live()
            except FunctionError as failure:
                if not self._begins_anew or self.status.closed or self.stopping.is_set():
                    raise
                self._tries = self._tries or self._retries.tries()
                self._rest = self._tries.pause_after(failure)
                self.status.retries += 1
                self.status.last_error = str(failure)
                self._forget()

    def _forget(self) -> None:
        """What is not in the log and acknowledged comes again, if the source can do that."""
        left = self._buffer.rows
        if left and not {"snapshot", "acknowledge"} & self._plan.functions.given.keys():
            text = "%s: %d rows that `fill` had added before it failed are not in the log"
            _log.warning(text, self._who, left)
        self._buffer = Buffer(self._plan.packer)
        self._tokens.clear()
        self.status.unacknowledged = 0

    def _live(self) -> None:
        self._state = self._call("create", copy.deepcopy(self._context))  # which it may change
        with closing_with(self._destroy):
            self._take_up()
            self._fill_until_stopped()
            self._acknowledge()

    def _take_up(self) -> None:
        """Go on where the last run ended."""
        if "snapshot" not in self._plan.functions:
            return
        snapshots = self._start.snapshots()
        if snapshots:
            self._call("restore", self._state, snapshots)
        if not self._has_begun:
            self._start.wait(self._context.index, json.loads(self._head())["snapshot"])
            self._has_begun = True

    def _fill_until_stopped(self) -> None:
        pause = 0.0
        while not self.stopping.wait(pause) and not self._buffer.closed:
            if self._backlog.full:
                pause = MOST_PAUSE
            else:
                found = self._fill()
                self._tries = None
                pause = 0.0 if found else min(2 * pause or LEAST_PAUSE, MOST_PAUSE)
            self._acknowledge_if_due()
        self.status.closed = self._buffer.closed

    def _fill(self) -> bool:
        """Call `fill` once and put what it added into the log; whether it added something."""
        returned = self._call("fill", self._state, self._buffer)
        with self._blamed("fill"):
            self._buffer.check_returned(returned)
            batches, tokens = self._buffer.take()
            place = self._buffer.place()
            if tokens and "acknowledge" not in self._plan.functions:
                raise ValueError("a row was added with a token, but there is no `acknowledge`")
            if place and "snapshot" not in self._plan.functions:
                raise ValueError("`keep_place` was called, but there is no `snapshot`")
        rows = batches or self._heartbeat_if_due() or place
        if rows and not self._append(rows, self._head(behind_rows=bool(batches))):
            return False  # they are not in the log, so their tokens must never be acknowledged
        self._expect(tokens)
        return bool(batches or tokens)

    def _append(self, batches: Sequence[pa.RecordBatch], head: str) -> bool:
        """The rows and the snapshot behind them, as one frame; False for one that was abandoned."""
        rows = sum(batch.num_rows for batch in batches)
        with self._blamed("fill"):
            payload = encode(batches, head)
        with self._appending:
            if self._abandoned:
                return False
            self._log.append(payload, rows, time.time_ns() // 1_000)
        self.added_at, self.silent_since = time.time(), time.monotonic()
        self.status.rows += rows
        self.status.bytes += len(payload)
        return True

    def _head(self, behind_rows: bool = False) -> str:
        """The snapshot, if there is one, as JSON. `behind_rows` that came, None is no place."""
        if "snapshot" not in self._plan.functions:
            return "{}"
        snapshot = self._call("snapshot", self._state)
        with self._blamed("snapshot"):
            if snapshot is None and behind_rows:
                raise ValueError(_NO_PLACE)
            return snapshot_text(snapshot)

    def _heartbeat_if_due(self) -> list[pa.RecordBatch]:
        """After a silence, a row with nothing but the time."""
        if self._plan.heartbeat is None:
            return []
        column, seconds = self._plan.heartbeat
        if time.monotonic() - self.silent_since < seconds:
            return []
        return [self._plan.packer.pack([{column: datetime.now(UTC)}])]

    # ---- Acknowledging

    def _expect(self, tokens: list[Any]) -> None:
        self._tokens += tokens
        self.status.unacknowledged = len(self._tokens)

    def _acknowledge_if_due(self) -> None:
        if self._tokens and time.monotonic() >= self._acknowledge_at:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Tell the source what is on disk; when it fails, again later, with what came meanwhile."""
        if self._abandoned or not self._tokens:
            return
        self._log.sync()
        try:
            self._call("acknowledge", self._state, list(self._tokens))
        except FunctionError as failure:
            self._try_again(failure)
        else:
            self._tokens.clear()
            self._telling = None
        self.status.unacknowledged = len(self._tokens)

    def _try_again(self, failure: FunctionError) -> None:
        if self.stopping.is_set():
            raise failure
        self._telling = self._telling or Tries(lambda _: True, GIVE_UP_SECONDS, RETRY_SECONDS)
        self._begins_anew = False  # when its time is up, the query ends
        self._acknowledge_at = time.monotonic() + self._telling.pause_after(failure)
        self._begins_anew = True
        self.status.last_error = str(failure)

    # ---- Calling

    def _destroy(self) -> None:
        if "destroy" in self._plan.functions:
            self._call("destroy", self._state)

    def _call(self, name: str, *arguments: Any) -> Any:
        self.inside = name, time.monotonic()
        try:
            return self._plan.functions.call(name, self._who, *arguments)
        finally:
            self.inside = None

    def _blamed(self, name: str) -> AbstractContextManager[None]:
        return self._plan.functions.blamed(name, self._who)

    @property
    def _who(self) -> str:
        return f"instance {self._context.index}"
