"""`SourceBuilder.stream` without Spark: restarts, acknowledgements, and functions that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
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
from tutorial_pkg.builder import instances as instances_module
from tutorial_pkg.durable_log import group, segments

pytestmark = pytest.mark.usefixtures("in_process")

TIMED = StructType().add("number", LongType()).add("at", TimestampType())


class Counter:
    """The numbers from 0 up to `most`, ten with each `fill`."""

    def __init__(self, context: SourceContext, most: int = 1_000_000) -> None:
        self.next, self.most = 0, most

    def fill(self, buffer: Buffer) -> None:
        end = min(self.next + 10, self.most)
        for number in range(self.next, end):
            buffer.add(number)
        self.next = end

    def restore(self, snapshots: list[int]) -> None:
        [self.next] = snapshots


def counter(most: int = 1_000_000) -> Any:
    builder = SourceBuilder.stream("counter", "number LONG", partial(Counter, most=most))
    return builder.fill(Counter.fill)


def resuming(most: int = 1_000_000) -> Any:
    return counter(most).snapshot(lambda state: state.next).restore(Counter.restore)


def stream(fill: Callable[..., Any], state: Any = None) -> Any:
    return SourceBuilder.stream("stream", "number LONG", lambda context: state).fill(fill)


def status_of(log: Path, index: int = 0) -> InstanceStatus:
    return builder_status(log).instances.get(index, InstanceStatus())


# ---- Restarts ------------------------------------------------------------------------------------


def test_missing_snapshots_file_is_an_error(tmp_path: Path) -> None:
    source = resuming().build()
    with running(source, tmp_path) as run:
        run.rows_until(lambda rows: len(rows) > 20)
    file = tmp_path / "snapshots.json"
    file.rename(tmp_path / "kept")
    with running(source, tmp_path, run.offset) as again:
        assert f"LogDamagedError: {file} is missing" in again.failure()


def test_2_then_3_then_1_instances_restore_all_snapshots(tmp_path: Path) -> None:
    seen: dict[tuple[int, int], list[Any]] = {}

    class Three:
        """Adds its index three times."""

        def __init__(self, context: SourceContext) -> None:
            self.index, self.next = context.index, 0

        def fill(self, buffer: Buffer) -> None:
            if self.next < 3:
                buffer.add(self.index)
                self.next += 1

    def build(run: int) -> Any:
        builder = SourceBuilder.stream("three", "number LONG", Three).fill(Three.fill)
        builder = builder.snapshot(lambda three: [run, three.index, three.next])
        return builder.restore(
            lambda three, snapshots: seen.update({(run, three.index): snapshots})
        ).build()

    def filled(instances: int) -> bool:
        status = builder_status(tmp_path).instances
        return [instance.rows for instance in status.values()] == [3] * instances

    offset, rows = None, []
    for run, instances in enumerate((2, 3, 1, 2)):
        with running(build(run), tmp_path, offset, parallelism=instances) as query:
            query.latest()
            wait_until(partial(filled, instances), 60, "3 rows of each")
            rows += query.rows() if run != 1 else []  # the second run's rows stay in its logs
            offset = query.offset
    assert sorted(rows) == sorted([0, 1] * 3 + [0, 1, 2] * 3 + [0] * 3 + [0, 1] * 3)
    assert seen[1, 0] == seen[1, 1] == seen[1, 2] == [[0, 0, 3], [0, 1, 3]]
    assert seen[2, 0] == [[1, 0, 3], [1, 1, 3], [1, 2, 3]]
    assert seen[3, 0] == seen[3, 1] == [[2, 0, 3]]


def test_restored_snapshot_survives_without_new_rows(tmp_path: Path) -> None:
    """Only instance 0 adds a row; the next restart also needs what instance 1 was restored to."""
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
    for rows in range(1, 4):
        with running(source, tmp_path, parallelism=2) as run:
            assert run.rows_until(lambda found, rows=rows: len(found) == rows)
    assert seen == [[0, 1], [0, 1], [2, 2], [2, 2]]


def test_snapshot_survives_its_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "SegmentWriter", partial(segments.SegmentWriter, segment_bytes=1))
    source = resuming(most=50).build()
    with running(source, tmp_path) as run:
        assert len(run.rows_until(lambda rows: len(rows) == 50)) == 50
        run.reader.commit(run.offset)
        offset = run.offset
    assert len(list((tmp_path / "0").glob("*.segment"))) == 1
    for _ in range(2):  # the first restart adds nothing
        with running(source, tmp_path, offset) as run:
            run.latest()
            wait_until(lambda: status_of(tmp_path).idle_since is not None, 60, "idle")
            assert run.rows() == []


# ---- Status, limits, schema ----------------------------------------------------------------------


def test_status_shows_rows_and_idle_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(counter(most=5).build(), tmp_path, parallelism=2) as run:
        run.rows_until(lambda rows: len(rows) == 10)
        run.latest()
        wait_until(lambda: status_of(tmp_path, 1).idle_since, 60, "idle")
        status = builder_status(tmp_path)
        assert status.running
        assert [instance.rows for instance in status.instances.values()] == [5, 5]
        assert status.instances[0].backlog_bytes == 0
        assert str(status).startswith("Instance 0: running; 5 rows, ")
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (tmp_path, "~", f"file:{tmp_path}"):  # as `.load` takes it
        assert str(builder_status(path)).startswith("Instance 0: not running; 5 rows, ")
    assert str(tmp_path / "no") in str(builder_status(tmp_path / "no"))


def test_full_backlog_pauses_fill(tmp_path: Path) -> None:
    with running(counter().build(), tmp_path, maxBacklogBytes=5_000) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path).backlog_bytes >= 5_000, 60, "full")
        assert 0 < status_of(tmp_path).rows < 500
        run.rows()
        run.rows_until(lambda rows: len(rows) > 100)


def test_changed_schema_is_an_error(tmp_path: Path) -> None:
    source = counter(most=10).build()
    with running(source, tmp_path) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path).rows == 10, 60, "rows")
    for kind, null, text in ((StringType(), True, "string"), (LongType(), False, "int64 not null")):
        with running(source, tmp_path, schema=StructType().add("number", kind, null)) as run:
            run.reader.prepareForTriggerAvailableNow()
            with pytest.raises(ValueError, match=rf"number: {text} vs number: int64"):
                run.rows()


def test_heartbeats_contain_only_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = SourceBuilder.stream("silent", TIMED, lambda context: None).fill(lambda s, b: None)
    builder.snapshot(lambda state: None).restore(lambda state, snapshots: None)
    source, now = builder.timestamps("at").heartbeat(0.02).build(), time.time()
    with running(source, tmp_path, schema=TIMED) as run:
        assert run.rows_until(lambda rows: len(rows) >= 3)[:3] == [None] * 3
        monkeypatch.setattr(time, "time", lambda: now - 3_600)  # the clock is set back
        run.rows_until(lambda rows: len(rows) >= 3)


def test_heartbeat_needs_a_fitting_schema(tmp_path: Path) -> None:
    """It fails at the start, not at the first silence."""
    builder = SourceBuilder.stream("silent", NUMBER, lambda context: None).fill(lambda s, b: None)
    with running(builder.timestamps("at").heartbeat(3_600).build(), tmp_path) as run:
        assert run.failure().startswith("ValueError: expected the columns ['number'], got ['at']")


# ---- Acknowledging -------------------------------------------------------------------------------


class Inbox:
    """Messages that stay until they are acknowledged."""

    def __init__(self) -> None:
        self.waiting = list(range(100))
        self.acknowledged: list[int] = []

    def fill(self, buffer: Buffer) -> None:
        for message in self.waiting[:7]:
            buffer.add(message, token=message)
        del self.waiting[:7]


def test_rows_are_acknowledged_once_and_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, synced = Inbox(), []
    sync = segments.SegmentWriter.sync

    def recording_sync(log: Any) -> int:
        synced.append(sync(log))
        return synced[-1]

    def acknowledge(state: Inbox, tokens: list[int]) -> None:
        assert max(synced) == (tmp_path / "0" / f"{0:020d}.segment").stat().st_size
        state.acknowledged += tokens

    monkeypatch.setattr(segments.SegmentWriter, "sync", recording_sync)
    with running(stream(Inbox.fill, inbox).acknowledge(acknowledge).build(), tmp_path) as run:
        assert run.rows_until(lambda rows: len(rows) == 100) == list(range(100))
        wait_until(lambda: len(inbox.acknowledged) == 100, 60, "all acknowledged")
    assert inbox.acknowledged == list(range(100))


# ---- Functions that fail -------------------------------------------------------------------------


def fails(*_: Any) -> Any:
    raise LookupError("no\nsuch thing")


def adds_text(state: Any, buffer: Buffer) -> None:
    buffer.add(1)
    buffer.add("two")


def adds_one(state: Any, buffer: Buffer) -> None:
    buffer.add(1)


FAILING: list[tuple[dict[str, Callable[..., Any]], str]] = [
    ({"create": fails}, "`create` of instance 0 failed: LookupError: no such thing"),
    ({"create": lambda c: 1 // (1 - c.index)}, "`create` of instance 1 failed: ZeroDivisionError"),
    ({"fill": fails}, "`fill` of instance 0 failed: LookupError: no such thing"),
    ({"fill": adds_text}, "`fill` of instance 0 failed: ValueError: column `number` BIGINT cannot"),
    ({"fill": lambda state, buffer: buffer.add(1, token="t")}, "no `acknowledge`"),
    ({"fill": lambda state, buffer: buffer.keep_place()}, "no `snapshot`"),
    ({"fill": lambda state, buffer: [1, 2]}, "`fill` of instance 0 failed: TypeError"),
    ({"snapshot": fails}, "`snapshot` of instance 0 failed: LookupError: no such thing"),
    ({"snapshot": lambda _: {1: 2, "1": 3}}, "`snapshot` of instance 0 failed: ValueError"),
    ({"snapshot": lambda _: float("nan")}, "`snapshot` of instance 0 failed: ValueError"),
    ({"snapshot": lambda _: None, "fill": adds_one}, "`snapshot` of instance 0 failed: ValueError"),
    ({"destroy": fails, "fill": fails}, "`fill` of instance 0 failed: LookupError: no such thing"),
]


@pytest.mark.parametrize(("functions", "text"), FAILING)
def test_failing_function_is_named_and_logs_nothing(
    tmp_path: Path, functions: dict[str, Callable[..., Any]], text: str
) -> None:
    functions = {"create": lambda context: None, "fill": lambda state, buffer: None, **functions}
    builder = SourceBuilder.stream("failing", "number LONG", functions.pop("create"))
    builder.distributed(2)
    if "snapshot" in functions:
        builder.restore(lambda state, snapshots: None)
    for name, function in functions.items():
        getattr(builder, name)(function)
    with running(builder.build(), tmp_path) as run:
        failure = run.failure()
        if "instance 0" in text:  # the other one may have failed first
            failure = failure.replace("instance 1", "instance 0")
        assert text in failure
    with running(builder.build(), tmp_path) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert run.rows() == []


def test_blocking_fill_is_abandoned_and_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances_module, "STOP_SECONDS", 0.2)
    release = threading.Event()
    acknowledged: list[str] = []

    def fill(state: Any, buffer: Buffer) -> None:
        buffer.add(1, "token")
        release.wait(60)

    source = stream(fill).acknowledge(lambda state, tokens: acknowledged.extend(tokens)).build()
    with running(source, tmp_path) as run:
        run.latest()
        wait_until(lambda: status_of(tmp_path).inside == "fill", 60, "inside")
    assert "`fill` did not return" in str(status_of(tmp_path).last_error)
    [instance] = [t for t in threading.enumerate() if t.name.startswith("instance ")]
    release.set()
    instance.join(10)
    assert not instance.is_alive()
    assert acknowledged == []
    assert status_of(tmp_path).rows == 0
    with running(source, tmp_path) as run:
        run.reader.prepareForTriggerAvailableNow()
        assert run.rows() == []
