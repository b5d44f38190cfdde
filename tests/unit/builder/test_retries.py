"""A refused connection ends no query: what is tried again in each kind of source and sink."""

from __future__ import annotations

import re
import urllib.error
from collections.abc import Callable
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_connector_tests.query_process import wait_until
from tests.stream_runs import NUMBER, running
from tutorial_pkg.builder import (
    FAIL_ON_DATA_LOSS,
    Buffer,
    SinkBuilder,
    SourceBuilder,
    Split,
    builder_status,
    integer,
)
from tutorial_pkg.builder.functions import FunctionError, Retries

pytestmark = pytest.mark.usefixtures("in_process")

SOON: dict[str, Any] = {"retryPauseMillis": "1"}


class Refusing:
    """Refuses what `at` names, so often for each."""

    def __init__(self, times: int = 2, error: type[BaseException] = ConnectionRefusedError) -> None:
        self.left: dict[str, int] = {}
        self.times, self.error = times, error

    def at(self, name: str) -> None:
        left = self.left.setdefault(name, self.times)
        if left:
            self.left[name] = left - 1
            raise self.error(name)


# ---- Which errors --------------------------------------------------------------------------------


def raised(*errors: BaseException, suppressed: bool = False) -> BaseException:
    """Return the first, to which the others led."""
    for error, cause in pairwise(errors):
        error.__context__, error.__suppress_context__ = cause, suppressed
    return errors[0]


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (raised(urllib.error.URLError("refused"), ConnectionRefusedError()), True),
        (raised(LookupError(), RuntimeError(), ConnectionRefusedError()), True),
        (raised(LookupError(), ConnectionRefusedError(), suppressed=True), False),
        (OSError(28, "no space"), False),
    ],
)
def test_network_errors_and_their_consequences_pass(error: BaseException, passes: bool) -> None:
    assert Retries().may_pass(error) is passes


def test_options_have_the_declared_defaults() -> None:
    builder = SourceBuilder.cursor("pages", NUMBER, lambda *_: ([], 0))
    assert "retrySeconds (0 or more; default 30)" in str(builder.build().__doc__)
    text = str(builder.retry(seconds=7, pause=0.02, option="waitSeconds").build().__doc__)
    assert "waitSeconds (0 or more; default 7)" in text
    assert "retryPauseMillis (1 or more; default 20)" in text
    assert "retry" not in str(builder.retry(seconds=0).build().__doc__)


class BrokerError(Exception):
    """A client's own error, with a code."""


def is_away(error: BaseException) -> bool:
    return isinstance(error, BrokerError) and error.args == ("away",)


def test_formats_recognize_errors_and_name_the_option() -> None:
    def look(context: Any) -> Any:
        raise BrokerError(next(codes))

    pages = SourceBuilder.replayable("pages", NUMBER, look=look, read=lambda *_: [])
    pages.retry(transient=is_away, option="pollMs", pause=0.001)
    declared: Any = pages.option("pollMs", integer(0), 20, "how long to wait").build()
    codes = iter(["away", "away", "denied"])
    with pytest.raises(FunctionError, match=r"BrokerError: denied$"):
        declared({"pollMs": "60000"}).streamReader(NUMBER).initialOffset()
    codes = cycle(["away"])
    text = re.escape("BrokerError: away (tried for 0.02 s: option `pollMs`)")
    with pytest.raises(FunctionError, match=text) as error:
        declared({}).streamReader(NUMBER).initialOffset()
    assert isinstance(error.value.__cause__, BrokerError)


# ---- Streams -------------------------------------------------------------------------------------


class Numbers:
    """Five of them with each `fill`; refuses in the middle of the third."""

    def __init__(self, refusing: Refusing) -> None:
        refusing.at("create")
        self.refusing, self.next = refusing, 0

    def fill(self, buffer: Buffer) -> None:
        for _ in range(5):
            buffer.add(self.next, token=self.next)
            self.next += 1
            if self.next == 13:
                self.refusing.at("fill")

    def go_to(self, snapshots: list[int]) -> None:
        self.refusing.at("restore")
        self.next = snapshots.pop()


def numbers(refusing: Refusing) -> Any:
    builder = SourceBuilder.stream("numbers", NUMBER, lambda context: Numbers(refusing))
    return (
        builder.fill(Numbers.fill)
        .snapshot(lambda state: state.next)
        .restore(Numbers.go_to)
        .acknowledge(lambda state, tokens: refusing.at("acknowledge"))
    )


def test_instance_starts_over_where_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows of a failed `fill` are not in the log, so a new state adds them again."""
    with running(numbers(Refusing()).build(), tmp_path, **SOON) as run:
        rows = run.rows_until(lambda rows: len(rows) >= 100)
        # twice each: `create`, `restore`, `fill` and `acknowledge`
        wait_until(lambda: "retried 8 times" in str(builder_status(tmp_path)), 60, "status")
    assert rows == list(range(len(rows)))
    assert caplog.text.count("; it is tried again") == 8


def test_rows_lost_by_a_retry_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They were added by a `fill` that failed, and the source has no position to go back to."""
    refusing = Refusing(1)

    def fill(state: Any, buffer: Buffer) -> None:
        for number in range(3):
            buffer.add(number)
        refusing.at("fill")

    builder = SourceBuilder.stream("once", NUMBER, lambda context: None).fill(fill)
    with running(builder.build(), tmp_path, **SOON) as run:
        run.rows_until(lambda rows: len(rows) >= 3)
    text = "instance 0: 3 rows that `fill` had added before it failed are not in the log"
    assert caplog.messages.count(text) == 1


def test_cursor_continues_at_the_refused_page(tmp_path: Path) -> None:
    refusing = Refusing()

    def read(context: Any, split: str, position: Any) -> tuple[list[int], int]:
        start = position or 0
        if start:
            refusing.at("read")
        return list(range(start, min(start + 3, 10))), min(start + 3, 10)

    builder = SourceBuilder.cursor("pages", NUMBER, read)
    builder.connect(lambda options: refusing.at("connect"))
    with running(builder.build(), tmp_path, **SOON, pollSeconds=0) as run:
        assert run.rows_until(lambda rows: len(rows) >= 10) == list(range(10))
    assert refusing.left == {"connect": 0, "read": 0}
    refusing.left.clear()
    reader: Any = builder.replayable().build()(SOON).streamReader(NUMBER)  # type: ignore[call-arg]
    start = reader.initialOffset()
    [part] = reader.partitions(start, reader.latestOffset(start, ReadMaxRows(100)))
    assert [n for batch in reader.read(part) for n in batch.column(0).to_pylist()] == [*range(10)]
    assert refusing.left == {"connect": 0, "read": 0}


# ---- In tasks ------------------------------------------------------------------------------------


def test_replayable_functions_get_new_connections(caplog: pytest.LogCaptureFixture) -> None:
    refusing, open_now, committed = Refusing(1), list[object](), list[Any]()

    def connect(options: Any) -> object:
        refusing.at("connect")
        open_now.append(object())
        return open_now[-1]

    def asking(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def ask(context: Any, *arguments: Any) -> Any:
            assert open_now == [context.connection]
            refusing.at(name)
            return answer(*arguments)

        return ask

    def read(context: Any, split: str, start: int, end: int) -> Any:
        yield start
        refusing.at("read")
        yield from range(start + 1, end)

    look = asking("look", lambda: {"a": Split(0, 9, "7")})
    builder = SourceBuilder.replayable("numbers", NUMBER, look, read).options(FAIL_ON_DATA_LOSS)
    builder.connect(connect).close(open_now.remove)
    builder.bound(lambda c, split, start, end, rows: asking("bound", lambda: end)(c))
    reader: Any = builder.commit(asking("commit", committed.append)).build()(SOON)  # type: ignore[call-arg]
    reader = reader.streamReader(NUMBER)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.commit(end)
    reader.stop()
    [part] = reader.partitions(start, end)
    reader.stop()
    [batch] = reader.read(part)
    assert batch.column(0).to_pylist() == list(range(9))
    assert not any(refusing.left.values()) and len(refusing.left) == 5
    assert (open_now, committed) == ([], [{"a": 9}])
    assert caplog.text.count("; it is tried again") == 5


def test_read_is_retried_only_before_its_first_rows() -> None:
    refusing = Refusing(1)

    def read(context: Any, split: str, start: int, end: int) -> Any:
        yield pa.RecordBatch.from_pydict({"number": [1]})
        yield context.retry(lambda: refusing.at("call") or 2)
        refusing.at("read")

    builder = SourceBuilder.replayable("one", NUMBER, lambda _: {"a": (0, 1)}, read)
    reader: Any = builder.build()(SOON).reader(NUMBER)  # type: ignore[call-arg]
    with pytest.raises(FunctionError, match="`read` of split `a` failed: ConnectionRefusedError"):
        list(reader.read(reader.partitions()[0]))
    assert refusing.left == {"call": 0, "read": 0}


def test_sink_retries_create_commit_and_abort(caplog: pytest.LogCaptureFixture) -> None:
    """A `commit` that has changed its list gets all handles again."""
    refusing, created, finished = Refusing(), list[list[Row]](), list[Any]()

    def create(context: Any) -> list[Row]:
        refusing.at("create")
        created.append([])
        return created[-1]

    def finish(context: Any, handles: list[list[Row]]) -> None:
        handle = handles.pop()
        refusing.at(f"finish {len(finished)}")
        finished.append(handle)

    builder = SinkBuilder.stream("target", create).receive(list.append).flush(list)
    sink: Any = builder.commit(finish).abort(finish).build()
    writer = sink(SOON).streamWriter(NUMBER, False)
    rows = [Row(number=number) for number in range(3)]
    message = writer.write(iter(rows))
    writer.commit([message], 7)
    writer.abort([message], 7)
    assert created == [rows]
    assert finished == [rows, rows]
    assert caplog.text.count("; it is tried again") == 6


@pytest.mark.parametrize("name", ["receive", "flush"])
def test_sink_does_not_retry_consumed_rows(name: str) -> None:
    refusing = Refusing(1)
    functions: dict[str, Any] = {"receive": lambda *_: None, "flush": lambda _: None}
    functions[name] = lambda *_: refusing.at(name)
    builder = SinkBuilder.stream("target", lambda _: None).receive(functions["receive"])
    sink: Any = builder.flush(functions["flush"]).build()
    with pytest.raises(FunctionError, match=f"`{name}` of task 0 failed: ConnectionRefusedError"):
        sink(SOON).streamWriter(NUMBER, False).write(iter([Row(number=1)]))
