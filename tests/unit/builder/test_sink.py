"""A built sink without Spark: tasks that fail and are repeated, commit and abort in every order."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import Row
from pyspark.sql.types import StructType

from tutorial_pkg.builder import BatchContext, SinkBuilder, SinkContext, TargetContext

NUMBER = StructType().add("number", "long")
TASK = SimpleNamespace(index=0)  # the one that writes; every batch here is number 7


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions share memory with the test; nothing is pickled."""
    monkeypatch.setattr("tutorial_pkg.builder.declaration.check_travel", lambda *_: None)
    properties = {
        "sql.streaming.queryId": "q",
        "streaming.sql.batchId": "7",
        "spark.jobGroup.id": "r",
    }
    task = SimpleNamespace(
        partitionId=lambda: TASK.index, getLocalProperty=lambda name: "/checkpoints"
    )
    sink = "tutorial_pkg.builder.sink_builder"
    monkeypatch.setattr(f"{sink}.task_property", properties.__getitem__)
    monkeypatch.setattr(f"{sink}.this_task", lambda: task)


class Warehouse:
    """Rows wait in `staged` under a number, until a commit moves them to `rows`."""

    def __init__(self) -> None:
        self.staged: dict[int, list[int]] = {}
        self.rows: list[int] = []
        self.done: set[tuple[str, int]] = set()
        self.created = self.destroyed = 0

    def create(self, context: SinkContext) -> list[int]:
        assert (context.query, context.batch, context.index) == ("q", 7, TASK.index)
        self.created += 1
        return []

    def receive(self, state: list[int], row: Row) -> None:
        state.append(row.number)

    def flush(self, state: list[int]) -> int:
        number = len(self.staged)
        self.staged[number] = state
        return number

    def destroy(self, state: list[int]) -> None:
        self.destroyed += 1

    def commit(self, context: BatchContext, handles: list[int]) -> None:
        if (context.query, context.batch) not in self.done:
            self.rows += [row for handle in handles for row in self.staged[handle]]
            self.done.add((context.query, context.batch))

    def abort(self, context: BatchContext, handles: list[int]) -> None:
        assert (context.query, context.batch) == ("q", 7)
        for handle in handles:
            self.staged[handle] = []

    def writer(self, **others: Callable[..., Any]) -> Any:
        names = ("receive", "flush", "destroy", "commit", "abort")
        builder = SinkBuilder.stream("warehouse", others.get("create", self.create))
        for name in names:
            getattr(builder, name)(others.get(name, getattr(self, name)))
        return builder.build()({}).streamWriter(NUMBER, False)


def write(writer: Any, index: int) -> Any:
    """One attempt of a task that has the rows 10·index and the next one."""
    TASK.index = index
    return writer.write(iter([Row(number=10 * index), Row(number=10 * index + 1)]))


def fails(*_: Any) -> Any:
    raise LookupError("no room")


STEPS: dict[str, Callable[[Any, Any, Any], None]] = {
    "commit": lambda writer, one, two: writer.commit([one, two], 7),
    "abort": lambda writer, one, two: writer.abort([one, two], 7),
    "abort, the first task failed": lambda writer, one, two: writer.abort([None, two], 7),
    "abort, the second task failed": lambda writer, one, two: writer.abort([one, None], 7),
    "abort, both failed": lambda writer, one, two: writer.abort([None, None], 7),
}


@pytest.mark.parametrize("repeated", [False, True], ids=["", "a task repeated"])
@pytest.mark.parametrize("steps", list(product(STEPS, repeat=2)), ids=" then ".join)
def test_whatever_happened_before_a_batch_is_committed_once(
    steps: tuple[str, ...], repeated: bool
) -> None:
    """The steps, each after tasks of its own, as restarts would have them; then a last commit."""
    warehouse = Warehouse()
    for step in (*steps, "commit"):
        writer = warehouse.writer()  # another process
        attempts = [write(writer, index) for index in (0, 0, 1, 1)[:: 1 if repeated else 2]]
        STEPS[step](writer, attempts[0], attempts[-1])
    assert sorted(warehouse.rows) == [0, 1, 10, 11]
    assert warehouse.created == warehouse.destroyed == 6 * (1 + repeated)


def test_without_commit_a_repeated_batch_is_there_again() -> None:
    """At least once: what the first attempt had put there stays."""
    rows: list[int] = []
    builder = SinkBuilder.stream("table", lambda context: []).flush(rows.extend)
    sink = builder.receive(lambda state, row: state.append(row.number)).build()
    for _ in range(2):
        write(sink({}).streamWriter(NUMBER, False), 0)
    assert rows == [0, 1, 0, 1]


@pytest.mark.parametrize("name", ["create", "receive", "flush", "destroy"])
def test_a_failing_function_is_named_and_what_was_created_is_destroyed_once(name: str) -> None:
    warehouse = Warehouse()
    with pytest.raises(Exception, match=rf"^format `warehouse`: `{name}` of task 1 failed: Look"):
        write(warehouse.writer(**{name: fails}), 1)
    assert warehouse.created == warehouse.destroyed + (name == "destroy")


def test_the_first_error_counts_when_destroy_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception, match="`receive` of task 0 failed"):
        write(Warehouse().writer(receive=fails, destroy=fails), 0)
    assert "after another error: format `warehouse`: `destroy` of task 0" in caplog.text


def test_an_error_of_the_rows_is_not_that_of_receive() -> None:
    """Those come from the query: what failed there is what the query ends with."""

    def rows() -> Iterator[Row]:
        yield Row(number=1)
        raise OSError("the shuffle")

    warehouse = Warehouse()
    with pytest.raises(OSError, match=r"^the shuffle$"):
        warehouse.writer().write(rows())
    assert warehouse.created == warehouse.destroyed == 1


def test_a_handle_that_cannot_travel_is_named() -> None:
    warehouse = Warehouse()
    with pytest.raises(Exception, match="`flush` of task 0 failed: TypeError: cannot pickle"):
        write(warehouse.writer(flush=lambda state: threading.Lock()), 0)
    assert warehouse.created == warehouse.destroyed == 1


# ---- `df.write`, modes that replace, checks ------------------------------------------------------


def test_a_job_is_one_batch_under_a_name_of_its_own() -> None:
    told: list[Any] = []

    def tell(context: Any, handles: list[Any]) -> None:
        told.append((context.query, context.batch, context.streaming, context.overwrite, handles))

    builder = SinkBuilder.stream("table", lambda context: [context]).also_batch().also_overwrite()
    builder = builder.receive(lambda state, row: state.append(row.number)).flush(lambda s: s[1:])
    sink: Any = builder.commit(tell).abort(tell).build()
    jobs = [sink({}).writer(NUMBER, overwrite) for overwrite in (False, True)]
    jobs[0].commit([write(jobs[0], 0), write(jobs[0], 1)])
    jobs[1].commit([])  # of no rows at all: what was there is to go all the same
    jobs[1].abort([None])
    names = [query for query, *_ in told]
    assert names[0] != names[1] == names[2] and "q" not in names
    assert [rest for _, *rest in told] == [
        [0, False, False, [[0, 1], [10, 11]]],
        [0, False, True, []],
        [0, False, True, []],
    ]


def test_what_a_sink_does_not_say_that_it_can_is_refused() -> None:
    plain: Any = SinkBuilder.stream("table", lambda context: []).receive(fails).build()
    with pytest.raises(PySparkNotImplementedError, match="writer"):
        plain({}).writer(NUMBER, False)
    with pytest.raises(ValueError, match="format `table` only appends"):
        plain({}).streamWriter(NUMBER, True)


def test_rows_are_checked_before_anything_runs() -> None:
    def check(context: TargetContext) -> None:
        if context.schema != NUMBER or context.options.table is None:
            raise ValueError(f"no {context.schema.names} ({context.streaming})")

    builder = SinkBuilder.stream("table", lambda context: []).receive(fails).check(check)
    sink: Any = builder.also_batch().option("table", str, None, "").build()
    assert sink({"table": "t"}).streamWriter(NUMBER, False)
    for make, streaming in ((sink({}).streamWriter, True), (sink({}).writer, False)):
        with pytest.raises(ValueError, match=rf"no \['number'\] \({streaming}\)"):
            make(NUMBER, False)


@pytest.mark.parametrize("answer", [False, map(print, ["a"])])
def test_a_check_that_says_no_by_what_it_returns_is_an_error(answer: Any) -> None:
    sink: Any = SinkBuilder.stream("t", lambda _: []).receive(fails).check(lambda _: answer).build()
    with pytest.raises((ValueError, TypeError), match=r"`check` returned False; it|has not run"):
        sink({}).streamWriter(NUMBER, False)


def test_work_that_receive_has_begun_needs_a_flush_that_waits() -> None:
    begun = concurrent.futures.Future[None]()
    builder = SinkBuilder.stream("table", lambda _: []).receive(lambda *_: begun)
    writer: Any = builder.build()({}).streamWriter(NUMBER, False)
    with pytest.raises(Exception, match="`receive` of task 0 failed: TypeError: it returned a Fut"):
        write(writer, 0)
    writer = builder.flush(lambda _: None).build()({}).streamWriter(NUMBER, False)
    assert write(writer, 0).handle is None
