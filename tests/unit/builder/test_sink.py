"""A built sink without Spark: failing and repeated tasks, commit and abort in every order."""

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
TASK = SimpleNamespace(index=0)  # the running task; every batch is number 7


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
        builder = SinkBuilder.stream("warehouse", others.get("create", self.create))
        for name in ("receive", "flush", "destroy", "commit", "abort"):
            getattr(builder, name)(others.get(name, getattr(self, name)))
        return builder.build()({}).streamWriter(NUMBER, False)


def write(writer: Any, index: int) -> Any:
    """Run one attempt of a task, with the rows 10·index and the next one."""
    TASK.index = index
    return writer.write(iter([Row(number=10 * index), Row(number=10 * index + 1)]))


def fails(*_: Any) -> Any:
    raise LookupError("no room")


STEPS: dict[str, Callable[[Any, Any, Any], None]] = {
    "commit": lambda writer, one, two: writer.commit([one, two], 7),
    "abort": lambda writer, one, two: writer.abort([one, two], 7),
    "abort, the first task failed": lambda writer, one, two: writer.abort([None, two], 7),
    "abort, both failed": lambda writer, one, two: writer.abort([None, None], 7),
}


@pytest.mark.parametrize("repeated", [False, True], ids=["", "a task repeated"])
@pytest.mark.parametrize("steps", list(product(STEPS, repeat=2)), ids=" then ".join)
def test_batch_is_committed_once_in_any_order(steps: tuple[str, ...], repeated: bool) -> None:
    """Each step follows new tasks, as after a restart. The last step is a commit."""
    warehouse = Warehouse()
    for step in (*steps, "commit"):
        writer = warehouse.writer()  # another process
        attempts = [write(writer, index) for index in (0, 0, 1, 1)[:: 1 if repeated else 2]]
        STEPS[step](writer, attempts[0], attempts[-1])
    assert sorted(warehouse.rows) == [0, 1, 10, 11]
    assert warehouse.created == warehouse.destroyed == 6 * (1 + repeated)


@pytest.mark.parametrize("name", ["create", "receive", "flush", "destroy"])
def test_failing_function_is_named_and_state_destroyed(name: str) -> None:
    warehouse = Warehouse()
    with pytest.raises(Exception, match=rf"`warehouse`: `{name}` of task 1 failed: LookupError"):
        write(warehouse.writer(**{name: fails}), 1)
    assert warehouse.created == warehouse.destroyed + (name == "destroy")


def test_first_error_is_raised_if_destroy_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception, match="`receive` of task 0 failed"):
        write(Warehouse().writer(receive=fails, destroy=fails), 0)
    assert "`destroy` of task 0 failed" in caplog.text


def test_error_of_the_query_is_not_blamed_on_receive() -> None:
    def rows() -> Iterator[Row]:
        yield Row(number=1)
        raise OSError("the shuffle")

    warehouse = Warehouse()
    with pytest.raises(OSError, match=r"^the shuffle$"):
        warehouse.writer().write(rows())
    assert warehouse.created == warehouse.destroyed == 1


def test_handle_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(Exception, match="`flush` of task 0 failed: TypeError: cannot pickle"):
        write(Warehouse().writer(flush=lambda state: threading.Lock()), 0)


def test_futures_of_receive_need_a_flush() -> None:
    future = concurrent.futures.Future[None]()
    builder = SinkBuilder.stream("table", lambda _: []).receive(lambda *_: future)
    writer: Any = builder.build()({}).streamWriter(NUMBER, False)
    with pytest.raises(Exception, match="`receive` of task 0 failed: TypeError"):
        write(writer, 0)
    writer = builder.flush(lambda _: None).build()({}).streamWriter(NUMBER, False)
    assert write(writer, 0).handle is None


# ---- Contexts, modes, checks ---------------------------------------------------------------------


def test_each_job_is_a_batch_with_its_own_query() -> None:
    calls: list[Any] = []

    def finish(context: Any, handles: list[Any]) -> None:
        calls.append((context.query, context.batch, context.streaming, context.overwrite, handles))

    builder = SinkBuilder.stream("table", lambda context: []).also_batch().also_overwrite()
    builder = builder.receive(lambda state, row: state.append(row.number)).flush(list)
    sink: Any = builder.commit(finish).abort(finish).build()
    jobs = [sink({}).writer(NUMBER, overwrite) for overwrite in (False, True)]
    jobs[0].commit([write(jobs[0], 0), write(jobs[0], 1)])
    jobs[1].commit([])  # no rows, but the existing ones must go
    jobs[1].abort([None])
    queries = [query for query, *_ in calls]
    assert queries[0] != queries[1] == queries[2] and "q" not in queries
    assert [rest for _, *rest in calls] == [
        [0, False, False, [[0, 1], [10, 11]]],
        [0, False, True, []],
        [0, False, True, []],
    ]


@pytest.mark.parametrize(
    ("options", "checkpoint"),
    [
        ({"checkpointLocation": "/own", "queryName": "name"}, "/own"),
        ({"queryName": "name"}, "/checkpoints/name"),
        ({}, None),
    ],
)
def test_commit_gets_run_and_checkpoint(options: dict[str, str], checkpoint: str | None) -> None:
    contexts: list[BatchContext] = []
    builder = SinkBuilder.stream("table", lambda context: []).receive(list.append).flush(list)
    sink: Any = builder.commit(lambda context, handles: contexts.append(context)).build()
    writer = sink(options).streamWriter(NUMBER, False)
    writer.commit([write(writer, 0)], 7)
    assert [(context.run, context.checkpoint) for context in contexts] == [("r", checkpoint)]


def test_modes_must_be_declared() -> None:
    sink: Any = SinkBuilder.stream("table", lambda context: []).receive(fails).build()
    with pytest.raises(PySparkNotImplementedError, match="writer"):
        sink({}).writer(NUMBER, False)
    with pytest.raises(ValueError, match="format `table` only appends"):
        sink({}).streamWriter(NUMBER, True)


def test_check_refuses_rows_before_the_query_runs() -> None:
    def check(context: TargetContext) -> None:
        if context.schema != NUMBER or context.options.table is None:
            raise ValueError(f"no {context.schema.names} ({context.streaming})")

    builder = SinkBuilder.stream("table", lambda context: []).receive(fails).check(check)
    sink: Any = builder.also_batch().option("table", str, None, "").build()
    assert sink({"table": "t"}).streamWriter(NUMBER, False)
    for make, streaming in ((sink({}).streamWriter, True), (sink({}).writer, False)):
        with pytest.raises(ValueError, match=rf"no \['number'\] \({streaming}\)"):
            make(NUMBER, False)


def test_check_must_not_return_false() -> None:
    builder = SinkBuilder.stream("t", lambda _: []).receive(fails)
    sink: Any = builder.check(lambda _: False).build()
    with pytest.raises(ValueError, match="`check` returned False"):
        sink({}).streamWriter(NUMBER, False)
