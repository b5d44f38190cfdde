"""A built sink without Spark: failing and repeated tasks, commit and abort in every order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import Row

from tests.stream_runs import NUMBER
from tests.unit.builder.conftest import TASK
from tutorial_pkg.builder import BatchContext, SinkBuilder, SinkContext, TargetContext

pytestmark = pytest.mark.usefixtures("in_process")


class Warehouse:
    """Rows wait in `staged` under a number, until a commit moves them to `rows`."""

    def __init__(self) -> None:
        self.staged: dict[int, list[int]] = {}
        self.rows: list[int] = []
        self.done: set[tuple[str, int]] = set()
        self.created = self.destroyed = 0

    def create(self, context: SinkContext) -> list[int]:
        assert (context.query, context.batch) == ("q", 7)
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

    with pytest.raises(OSError, match=r"^the shuffle$"):
        Warehouse().writer().write(rows())


def test_handle_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(Exception, match="`flush` of task 0 failed: TypeError: cannot pickle"):
        write(Warehouse().writer(flush=lambda state: threading.Lock()), 0)


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
    with pytest.raises(ValueError, match="`table` only appends"):
        sink({}).streamWriter(NUMBER, True)


def test_check_refuses_rows_before_the_query_runs() -> None:
    def check(context: TargetContext) -> None:
        if context.schema != NUMBER or context.options.table is None:
            raise ValueError(f"streaming: {context.streaming}")

    builder = SinkBuilder.stream("table", lambda context: []).receive(fails).check(check)
    sink: Any = builder.also_batch().option("table", str, None, "").build()
    assert sink({"table": "t"}).streamWriter(NUMBER, False)
    for make, streaming in ((sink({}).streamWriter, True), (sink({}).writer, False)):
        with pytest.raises(ValueError, match=f"streaming: {streaming}"):
            make(NUMBER, False)
