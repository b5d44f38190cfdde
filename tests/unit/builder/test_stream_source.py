"""`SourceBuilder.stream` without Spark: what restarts keep, and what failing functions do."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from spark_connector_tests.query_process import wait_until
from tests.stream_runs import NUMBER, running
from tutorial_pkg.builder import (
    Buffer,
    InstanceStatus,
    SourceBuilder,
    SourceContext,
    builder_status,
)
from tutorial_pkg.builder import instance as instance_module
from tutorial_pkg.builder import instances as instances_module
from tutorial_pkg.durable_log import group, segments


@pytest.fixture(autouse=True)
def functions_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share memory with the test; nothing is pickled."""
    monkeypatch.setattr("tutorial_pkg.builder.declaration.check_travel", lambda *_: None)


class Counter:
    """The numbers that are `index` modulo `count`, up to `most`, ten with each `fill`."""

    def __init__(self, context: SourceContext, most: int = 1_000_000) -> None:
        self.index, self.count, self.most = context.index, context.count, most
        self.next = context.index

    def fill(self, buffer: Buffer) -> None:
        for _ in range(10):
            if self.next < self.most:
                buffer.add(self.next)
                self.next += self.count
        time.sleep(0.001)

    def restore(self, snapshots: list[int]) -> None:
        """All below the smallest snapshot are counted; each instance skips what others have."""
        self.next = first_of(self.index, self.count, snapshots)


def status_of(log: Path, index: int = 0) -> InstanceStatus:
    """Before there is one: that of an instance which has done nothing."""
    return builder_status(log).instances.get(index, InstanceStatus())


def first_of(index: int, count: int, snapshots: list[int]) -> int:
    """For snapshots of instances in step: the first number of mine that none of them had."""
    start = max(snapshots)
    return start + (index - start) % count


def counter(instances: int = 1, create: Callable[..., Any] = Counter) -> Any:
    builder = SourceBuilder.stream("counter", "number LONG", create).fill(Counter.fill)
    return builder.distributed(instances)


def test_a_simple_source_begins_anew_and_what_is_in_the_log_stays(tmp_path: Path) -> None:
    source = counter(create=lambda context: Counter(context, most=30)).build()
    with running(source, tmp_path) as run:
        assert run.rows_until(lambda rows: len(rows) == 30) == list(range(30))
        offset = run.offset
    with running(source, tmp_path, offset) as run:
        assert run.rows_until(lambda rows: len(rows) == 30) == list(range(30))


def test_one_that_can_seek_goes_on_behind_the_last_row_of_the_log(tmp_path: Path) -> None:
    source = counter().snapshot(lambda c: c.next).restore(Counter.restore).build()
    found: list[int] = []
    offset = None
    for _ in range(4):
        with running(source, tmp_path, offset) as run:
            found += run.rows_until(lambda rows: len(rows) > 20)
            offset = run.offset
    assert found == list(range(len(found)))


class Greedy(Counter):
    """Takes the snapshots away that it has seen, and the first time it is refused then."""

    refused = False

    def restore(self, snapshots: list[int]) -> None:
        super().restore([snapshots.pop() for _ in snapshots[:]])
        if not Greedy.refused:
            Greedy.refused = True
            raise ConnectionRefusedError


def test_who_changes_the_snapshots_takes_none_from_others_nor_from_a_second_try(
    tmp_path: Path,
) -> None:
    source = counter(2, Greedy).snapshot(lambda c: c.next).restore(Greedy.restore).build()
    Greedy.refused, found, offset = False, list[int](), None
    for _ in range(3):
        with running(source, tmp_path, offset, retryPauseMillis=1) as run:
            found += run.rows_until(lambda rows: len(rows) > 20)
            offset = run.offset
    assert Greedy.refused
    assert len(set(found)) == len(found)


def test_a_source_whose_snapshots_were_deleted_does_not_begin_anew(tmp_path: Path) -> None:
    """All that is in the log would come again."""
    source = counter().snapshot(lambda c: c.next).restore(Counter.restore).build()
    with running(source, tmp_path) as run:
        run.rows_until(lambda rows: len(rows) > 20)
    file = tmp_path / "snapshots.json"
    kept = file.rename(tmp_path / "kept")
    with running(source, tmp_path, run.offset) as again:
        assert "snapshots.json is missing" in again.failure()
    kept.rename(file)
    with running(source, tmp_path, run.offset) as again:
        assert again.rows_until(lambda rows: len(rows) > 20)[0] > 20
    with running(counter().build(), tmp_path / "other") as run:
        run.rows_until(lambda rows: len(rows) > 20)
    with running(source, tmp_path / "other", run.offset) as run:  # it had none before
        assert run.rows_until(lambda rows: len(rows) > 20)


class Ledger:
    """An instance's state is the list of all that it has seen: its own, and what it inherited."""

    def __init__(self, context: SourceContext) -> None:
        self.index, self.inherited, self.next = context.index, [], 0

    def fill(self, buffer: Buffer) -> None:
        if self.next < 3:
            buffer.add(self.index)
            self.next += 1


def test_2_then_3_then_1_instances_see_every_snapshot_and_old_logs_are_drained(
    tmp_path: Path,
) -> None:
    seen: dict[tuple[int, int], list[Any]] = {}

    def build(run: int) -> Any:
        def restore(ledger: Ledger, snapshots: list[Any]) -> None:
            seen[run, ledger.index] = snapshots

        builder = SourceBuilder.stream("ledger", "number LONG", Ledger).fill(Ledger.fill)
        builder = builder.snapshot(lambda ledger: [run, ledger.index, ledger.next])
        return builder.restore(restore).build()

    offset, rows = None, []
    for run, instances in enumerate((2, 3, 1, 2)):
        with running(build(run), tmp_path, offset, parallelism=instances) as query:
            query.latest()
            wait_until(partial(_filled, tmp_path, instances), 60, "3 rows of each")
            rows += query.rows() if run != 1 else []  # the second run's rows stay in its logs
            offset = query.offset
    assert sorted(rows) == sorted([0, 1] * 3 + [0, 1, 2] * 3 + [0] * 3 + [0, 1] * 3)
    assert seen[1, 0] == seen[1, 1] == seen[1, 2] == [[0, 0, 3], [0, 1, 3]]
    assert seen[2, 0] == [[1, 0, 3], [1, 1, 3], [1, 2, 3]]
    assert seen[3, 0] == seen[3, 1] == [[2, 0, 3]]


def _filled(log: Path, instances: int) -> bool:
    status = builder_status(log).instances
    return [each.rows for each in status.values()] == [3] * instances


def test_a_run_that_dies_before_all_instances_added_something_loses_no_snapshot(
    tmp_path: Path,
) -> None:
    """Only instance 0 fills; what 1 was restored to must be in the next restart's snapshots."""
    seen: list[list[Any]] = []

    def fill(state: dict[str, Any], buffer: Buffer) -> None:
        if state["index"] == 0 and not state["filled"]:
            buffer.add(0)
            state["filled"] = True

    def restore(state: dict[str, Any], snapshots: list[Any]) -> None:
        seen.append(snapshots)
        state["inherited"] = max(snapshots) + 1

    builder = SourceBuilder.stream(
        "some", "number LONG", lambda c: {"index": c.index, "filled": False, "inherited": c.index}
    )
    source = builder.fill(fill).snapshot(lambda s: s["inherited"]).restore(restore).build()
    for _ in range(3):
        with running(source, tmp_path, parallelism=2) as run:
            run.rows_until(lambda rows: len(rows) > 0)
    assert seen == [[0, 1], [0, 1], [2, 2], [2, 2]]


def test_the_snapshot_survives_when_its_segment_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = partial(segments.SegmentWriter, segment_bytes=1)
    monkeypatch.setattr(group, "SegmentWriter", tiny)
    source = counter(create=lambda context: Counter(context, most=50))
    source = source.snapshot(lambda c: c.next).restore(Counter.restore).build()
    with running(source, tmp_path) as run:
        assert len(run.rows_until(lambda rows: len(rows) == 50)) == 50
        run.reader.commit(run.offset)
        offset = run.offset
    assert len(list((tmp_path / "0").glob("*.segment"))) == 1
    for _ in range(2):  # the first restart adds nothing
        with running(source, tmp_path, offset) as run:
            time.sleep(0.1)
            assert run.rows() == []


def test_status_names_rows_and_idle_instances(tmp_path: Path) -> None:
    source = counter(2, create=lambda context: Counter(context, most=10)).build()
    with running(source, tmp_path) as run:
        run.rows_until(lambda rows: len(rows) == 10)
        run.latest()

        def idle() -> bool:
            return all(each.idle_since for each in builder_status(tmp_path).instances.values())

        wait_until(idle, 60, "both idle")
        status = builder_status(tmp_path)
        assert status.running
        assert [each.rows for each in status.instances.values()] == [5, 5]
        assert status.instances[0].backlog_bytes == 0
        assert re.match(r"Instance 0: running; 5 rows, \d+ bytes, backlog 0 bytes, ", str(status))
    assert str(builder_status(tmp_path)).startswith("Instance 0: not running; 5 rows, ")
    assert str(builder_status(tmp_path / "no")) == f"No query has filled the log {tmp_path}/no yet."


def test_a_source_that_ends(tmp_path: Path) -> None:
    destroyed = threading.Event()

    def fill(state: Any, buffer: Buffer) -> None:
        buffer.add(1)
        buffer.close()

    builder = SourceBuilder.stream("once", "number LONG", lambda context: None).fill(fill)
    with running(builder.destroy(lambda _: destroyed.set()).build(), tmp_path) as run:
        assert run.rows_until(lambda rows: len(rows) == 1) == [1]
        assert destroyed.wait(10)
        wait_until(lambda: status_of(tmp_path).closed, 60, "closed")
        assert run.rows() == []


def test_limits_and_available_now(tmp_path: Path) -> None:
    source = counter(2, create=lambda context: Counter(context, most=100)).build()
    with running(source, tmp_path, maxRowsPerTrigger=20) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path, 1).rows == 50, 60, "rows")
        end = run.reader.latestOffset(run.offset, ReadMaxRows(20))
        sizes = [
            b.num_rows for p in run.reader.partitions(run.offset, end) for b in run.reader.read(p)
        ]
        assert sum(sizes) == 20
        start = run.reader.initialOffset()
    with running(source, tmp_path, start) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert len(run.rows()) == 100
        assert run.rows() == []
        assert not builder_status(tmp_path).running  # no instance was created


def test_a_full_backlog_holds_fill_up(tmp_path: Path) -> None:
    source = counter().build()
    with running(source, tmp_path, maxBacklogBytes=5_000) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path).backlog_bytes >= 5_000, 60, "full")
        first = builder_status(tmp_path).instances[0].rows
        assert 0 < first < 500
        run.rows()
        run.rows_until(lambda rows: len(rows) > 100)


def test_record_batches(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"number": pa.array(range(1_000))})
    builder = SourceBuilder.stream("batches", "number LONG", lambda context: [batch])

    def fill(state: list[Any], buffer: Buffer) -> None:
        if state:
            buffer.add_batch(state.pop())
            buffer.add(1_000)

    with running(builder.fill(fill).build(), tmp_path) as run:
        assert run.rows_until(lambda rows: len(rows) == 1_001) == list(range(1_001))


def test_a_schema_that_changed_is_an_error_and_no_garbage(tmp_path: Path) -> None:
    source = counter(create=lambda context: Counter(context, most=10)).build()
    with running(source, tmp_path) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path).rows == 10, 60, "rows")
    text = (
        "format `counter`: the log holds rows with the columns (number int64), but the source has "
        "(number string) now. Read the log to its end with the old source"
    )
    other = StructType().add("number", StringType())
    with running(source, tmp_path, schema=other) as run:
        run.reader.prepareForTriggerAvailableNow()
        with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
            run.rows()


# ---- Acknowledging -------------------------------------------------------------------------------


class Inbox:
    """Messages that stay until they are acknowledged."""

    def __init__(self, log: Path, failures: int = 0) -> None:
        self.log, self.failures = log, failures
        self.waiting = list(range(100))
        self.acknowledged: list[int] = []
        self.on_disk: list[int] = []

    def fill(self, buffer: Buffer) -> None:
        for message in self.waiting[:7]:
            buffer.add(message, token=message)
        del self.waiting[:7]

    def acknowledge(self, tokens: list[int]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("no connection")
        self.acknowledged += tokens


def test_acknowledged_is_what_is_on_disk_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "RETRY_SECONDS", 0.01)
    inbox, synced = Inbox(tmp_path, failures=2), []
    sync = segments.SegmentWriter.sync

    def noting(log: Any) -> int:
        synced.append(sync(log))
        return synced[-1]

    monkeypatch.setattr(segments.SegmentWriter, "sync", noting)

    def acknowledge(state: Inbox, tokens: list[int]) -> None:
        assert max(synced) == (tmp_path / "0" / f"{0:020d}.segment").stat().st_size
        state.acknowledge(tokens)

    builder = SourceBuilder.stream("inbox", "number LONG", lambda context: inbox)
    source = builder.fill(Inbox.fill).acknowledge(acknowledge).build()
    with running(source, tmp_path) as run:
        assert run.rows_until(lambda rows: len(rows) == 100) == list(range(100))
        wait_until(lambda: len(inbox.acknowledged) == 100, 60, "all acknowledged")
        assert inbox.acknowledged == list(range(100))
    assert builder_status(tmp_path).instances[0].last_error == (
        "format `inbox`: `acknowledge` of instance 0 failed: OSError: no connection"
    )


def test_an_acknowledge_that_fails_for_too_long_ends_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(instance_module, "GIVE_UP_SECONDS", 0.1)
    inbox = Inbox(tmp_path, failures=10**9)
    builder = SourceBuilder.stream("inbox", "number LONG", lambda context: inbox).fill(Inbox.fill)
    with running(builder.acknowledge(Inbox.acknowledge).build(), tmp_path) as run:
        assert run.failure() == (
            "FunctionError: format `inbox`: `acknowledge` of instance 0 failed: "
            "OSError: no connection"
        )


# ---- Event time ----------------------------------------------------------------------------------

TIMED = StructType().add("number", LongType()).add("at", TimestampType())


def test_heartbeats_have_only_the_time(tmp_path: Path) -> None:
    builder = SourceBuilder.stream("silent", TIMED, lambda context: None).fill(lambda s, b: None)
    source = builder.timestamps("at").heartbeat(0.02).build()
    with running(source, tmp_path, schema=TIMED) as run:
        assert run.rows_until(lambda rows: len(rows) >= 3)[:3] == [None] * 3


def test_heartbeats_go_on_while_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = SourceBuilder.stream("silent", TIMED, lambda context: None).fill(lambda s, b: None)
    source, now = builder.timestamps("at").heartbeat(0.02).build(), time.time()
    with running(source, tmp_path, schema=TIMED) as run:
        run.rows_until(bool)
        monkeypatch.setattr(time, "time", lambda: now - 3_600)
        run.rows_until(lambda rows: len(rows) >= 3)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (NUMBER, "`timestamps` must name a TIMESTAMP column of the schema, got 'at'"),
        (
            StructType().add("n", LongType(), nullable=False).add("at", TimestampType()),
            "a heartbeat has nothing but the time, so no other column may be NOT NULL: ['n']",
        ),
    ],
)
def test_heartbeats_that_the_schema_has_no_room_for(
    tmp_path: Path, schema: StructType, text: str
) -> None:
    builder = SourceBuilder.stream("silent", schema, lambda context: None).fill(lambda s, b: None)
    source = builder.timestamps("at").heartbeat(1).build()
    with running(source, tmp_path, schema=schema) as run:
        assert run.failure() == f"ValueError: format `silent`: {text}"


# ---- Functions that fail -------------------------------------------------------------------------


def fails(*_: Any) -> Any:
    raise LookupError("no\nsuch thing")


def exits(*_: Any) -> Any:
    raise SystemExit("enough")


def cancels(*_: Any) -> Any:
    raise asyncio.CancelledError


def interrupts(*_: Any) -> Any:
    raise KeyboardInterrupt("of its own")


def adds_text(state: Any, buffer: Buffer) -> None:
    buffer.add(1)
    buffer.add("two")


def adds_a_token(state: Any, buffer: Buffer) -> None:
    buffer.add(1, token="t")


def keeps_its_place(state: Any, buffer: Buffer) -> None:
    buffer.keep_place()


def returns_rows(state: Any, buffer: Buffer) -> list[int]:
    return [1, 2]


def returns_a_table(state: Any, buffer: Buffer) -> pa.Table:
    return pa.table({"number": [1]})


def adds_one(state: Any, buffer: Buffer) -> None:
    buffer.add(1)


def fails_on_the_second(context: SourceContext) -> int:
    return 1 // (1 - context.index)


FAILING: list[tuple[dict[str, Callable[..., Any]], str]] = [
    ({"create": fails}, "`create` of instance 0 failed: LookupError: no such thing"),
    ({"create": fails_on_the_second}, "`create` of instance 1 failed: ZeroDivisionError: "),
    ({"fill": fails}, "`fill` of instance 0 failed: LookupError: no such thing"),
    ({"fill": exits}, "`fill` of instance 0 failed: SystemExit: enough"),
    ({"fill": cancels}, "`fill` of instance 0 failed: CancelledError"),
    ({"fill": interrupts}, "KeyboardInterrupt: of its own"),
    ({"fill": adds_text}, "`fill` of instance 0 failed: ValueError: column `number` BIGINT cannot"),
    ({"fill": adds_a_token}, "ValueError: a row was added with a token, but there is no `acknow"),
    ({"fill": keeps_its_place}, "ValueError: `keep_place` was called, but there is no `snapshot`"),
    ({"fill": returns_rows}, "`fill` of instance 0 failed: TypeError: it returned a list and"),
    ({"fill": returns_a_table}, "`fill` of instance 0 failed: TypeError: it returned a Table a"),
    ({"snapshot": fails}, "`snapshot` of instance 0 failed: LookupError: no such thing"),
    ({"snapshot": lambda _: {1: 2, "1": 3}}, "ValueError: JSON's keys are texts"),
    ({"snapshot": lambda _: {1}}, "`snapshot` of instance 0 failed: TypeError: Object of type set"),
    ({"snapshot": lambda _: float("nan")}, "failed: ValueError: Out of range float values are not"),
    ({"snapshot": lambda _: None, "fill": adds_one}, "failed: ValueError: it returned None after"),
    ({"destroy": fails, "fill": fails}, "`fill` of instance 0 failed: LookupError: no such thing"),
]


@pytest.mark.parametrize(("functions", "text"), FAILING)
def test_a_function_that_fails_is_named_and_nothing_is_half_written(
    tmp_path: Path, functions: dict[str, Callable[..., Any]], text: str
) -> None:
    given = {"create": lambda context: None, "fill": lambda state, buffer: None, **functions}
    builder = SourceBuilder.stream("failing", "number LONG", given.pop("create")).distributed(2)
    if "snapshot" in given:
        builder.restore(lambda state, snapshots: None)
    for name, function in given.items():
        getattr(builder, name)(function)
    with running(builder.build(), tmp_path) as run:
        found = run.failure()
        if "instance 0" in text:  # or the other one, if that was the first to fail
            found = found.replace("instance 1", "instance 0")
        assert text in found
    text_of_status = str(builder_status(tmp_path))
    assert "failed: " in text_of_status or "of its own" in text_of_status
    with running(builder.build(), tmp_path) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert run.rows() == []


def test_a_fill_may_return_what_is_no_row_and_a_snapshot_may_be_none_before_any(
    tmp_path: Path,
) -> None:
    def fill(state: list[int], buffer: Buffer) -> list[Any]:
        added = state[:1]
        for number in added:
            buffer.add(number)
        del state[:1]
        return added or [None, None]  # as `[buffer.add(each) for each in found]`

    builder = SourceBuilder.stream("returning", "number LONG", lambda context: [1, 2]).fill(fill)
    builder.snapshot(lambda state: None if len(state) == 2 else len(state))
    with running(builder.restore(lambda state, snapshots: None).build(), tmp_path) as run:
        assert run.rows_until(lambda rows: len(rows) == 2) == [1, 2]


def test_a_heartbeat_is_no_row_that_a_snapshot_must_know(tmp_path: Path) -> None:
    schema = StructType().add("at", TimestampType()).add("number", LongType())
    builder = SourceBuilder.stream("mute", "at TIMESTAMP, number LONG", lambda context: None)
    builder.fill(lambda state, buffer: None).snapshot(lambda state: None)
    builder.restore(lambda state, snapshots: None).timestamps("at").heartbeat(0.02)
    with running(builder.build(), tmp_path, schema=schema) as run:
        assert run.rows_until(lambda rows: len(rows) > 1)


def test_restore_that_fails(tmp_path: Path) -> None:
    builder = counter().snapshot(lambda c: c.next)
    with running(builder.restore(Counter.restore).build(), tmp_path) as run:
        run.rows_until(lambda rows: len(rows) > 0)
    with running(builder.restore(fails).build(), tmp_path) as run:
        assert "`restore` of instance 0 failed: LookupError: no such thing" in run.failure()


def test_what_a_failing_fill_had_added_is_not_in_the_log(tmp_path: Path) -> None:
    def fill(state: list[int], buffer: Buffer) -> None:
        buffer.add(len(state))
        state.append(0)
        if len(state) == 3:
            raise ValueError("third")

    builder = SourceBuilder.stream("third", "number LONG", lambda context: []).fill(fill)
    with running(builder.build(), tmp_path) as run:
        assert "third" in run.failure()
    with running(builder.build(), tmp_path) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert run.rows() == [0, 1]


def test_a_blocking_fill_is_left_behind_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances_module, "STOP_SECONDS", 0.2)
    release = threading.Event()
    builder = SourceBuilder.stream("blocking", "number LONG", lambda context: None)

    def fill(state: Any, buffer: Buffer) -> None:
        buffer.add(1)
        release.wait(60)

    built = builder.fill(fill).build()
    with running(built, tmp_path) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path).inside == "fill", 60, "inside")
    assert builder_status(tmp_path).instances[0].last_error == (
        "`fill` did not return within 0.2 s, and was abandoned"
    )
    release.set()
    wait_until(lambda: not _instances(), 60, "the thread's end")
    with running(built, tmp_path) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert run.rows() == []


def test_what_a_fill_adds_when_it_was_left_behind_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in the log, so the other side must send it again."""
    monkeypatch.setattr(instances_module, "STOP_SECONDS", 0.2)
    inside, release = threading.Event(), threading.Event()
    acknowledged: list[str] = []
    builder = SourceBuilder.stream("late", "number LONG", lambda context: None)

    def fill(state: Any, buffer: Buffer) -> None:
        buffer.add(1, "token")
        inside.set()
        release.wait(60)

    builder.fill(fill).acknowledge(lambda state, tokens: acknowledged.extend(tokens))
    with running(builder.build(), tmp_path) as run:
        run.latest()
        assert inside.wait(10)
    [instance] = _instances()
    release.set()
    instance.join(10)
    assert not instance.is_alive()
    assert acknowledged == []
    assert status_of(tmp_path).rows == 0


def _instances() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("instance ")]


def test_a_fill_that_adds_nothing_is_called_some_20_times_a_second(tmp_path: Path) -> None:
    calls: list[float] = []
    builder = SourceBuilder.stream("idle", "number LONG", lambda context: calls)
    source = builder.fill(lambda state, buffer: state.append(time.monotonic())).build()
    with running(source, tmp_path) as run:
        run.latest()
        time.sleep(1)
    assert 5 < len(calls) < 40
