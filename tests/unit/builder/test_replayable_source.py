"""`SourceBuilder.replayable` and `.batch` without Spark: offsets, identities, limits, tasks."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from tests.stream_runs import NUMBER
from tutorial_pkg.builder import FAIL_ON_DATA_LOSS, SourceBuilder, Split

pytestmark = pytest.mark.usefixtures("in_process")

ALL = ReadAllAvailable()
SPLITS: dict[str, Any] = {}  # what `look` returns


@pytest.fixture(autouse=True)
def no_splits() -> None:
    SPLITS.clear()


def read_range(context: Any, split: str, start: int, end: int) -> range:
    return range(start, end)


def builder(read: Any = read_range, look: Any = lambda context: dict(SPLITS)) -> Any:
    return SourceBuilder.replayable("pages", NUMBER, look=look, read=read)


def stream_of(builder: Any, schema: StructType = NUMBER, **options: Any) -> Any:
    texts = {name: str(value) for name, value in options.items()}
    return builder.build()(texts).streamReader(schema)


def rows(of: Any, start: Any, end: Any) -> dict[str, list[Any]]:
    return {
        part.split: [n for batch in of.read(part) for n in batch.column(0).to_pylist()]
        for part in of.partitions(start, end)
    }


def batches(source: Any, offset: Any) -> list[dict[str, list[Any]]]:
    """Return the rows of all batches until there is nothing new."""
    found = []
    while (end := source.latestOffset(offset, source.getDefaultReadLimit())) != offset:
        found.append(rows(source, offset, end))
        offset = end
    return found


# ---- Offsets -------------------------------------------------------------------------------------


def test_splits_appear_vanish_and_go_back() -> None:
    SPLITS.update(a=(0, 3), b=(0, 2))
    source = stream_of(builder())
    start = source.initialOffset()
    one = source.latestOffset(start, ALL)
    assert rows(source, start, one) == {"a": [0, 1, 2], "b": [0, 1]}
    SPLITS.update(a=(0, 1), c=(5, 6))
    del SPLITS["b"]
    two = source.latestOffset(one, ALL)
    assert two == {"a": 3, "b": 2, "c": 5}
    assert rows(source, one, two) == {}
    SPLITS.update(a=(0, 4), b=(0, 5))
    rebuilt = stream_of(builder())
    three = rebuilt.latestOffset(two, ALL)
    assert rows(rebuilt, two, three) == {"a": [3], "b": [2, 3, 4], "c": [5]}
    assert rebuilt.reportLatestOffset() == {"a": 4, "b": 5, "c": 6}


@pytest.mark.parametrize("later", [{"a": (15, 20)}, {"a": (30, 30)}, {}])
def test_first_batch_is_repeated_from_its_start(later: dict[str, Any]) -> None:
    """Spark asks for the initial offset again; rows or the split may be gone by then."""
    SPLITS.update(a=(10, 20))
    source = stream_of(builder())
    end = source.latestOffset(source.initialOffset(), ALL)
    SPLITS.clear()
    SPLITS.update(later)
    repeated = stream_of(builder())
    assert rows(repeated, repeated.initialOffset(), end) == {"a": list(range(10, 20))}
    assert repeated.latestOffset(end, ALL)["a"] == max(20, *later.get("a", [0]))


@pytest.mark.parametrize("splits", [{"a": (0, 2)}, {}])
def test_look_sees_positions_by_name(splits: dict[str, Any]) -> None:
    contexts: list[Any] = []

    def look(context: Any) -> Any:
        contexts.append((context.batch, context.draining, context.offset))
        return splits

    built = builder(look=look).build()
    built({}).reader(NUMBER).partitions()
    stream = built({}).streamReader(NUMBER)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(end, ALL) == stream.latestOffset(end, ALL) == end
    assert contexts == [
        (True, False, None),
        (False, False, None),
        (False, False, dict.fromkeys(splits, 0)),
        (False, True, dict.fromkeys(splits, 2)),
    ]


@pytest.mark.parametrize(
    "other", [{"0": 5, "log": "1a2b3c4d"}, {"positions": {"all": 5}, "batch": {}}]
)
def test_checkpoint_of_other_kind_is_refused(other: Any) -> None:
    source = stream_of(builder())
    for ask in (source.latestOffset, source.partitions):
        with pytest.raises(ValueError, match="another kind"):
            ask(other, other)


# ---- Identities ----------------------------------------------------------------------------------


def identified(**options: Any) -> Any:
    def read(context: Any, split: str, start: int, end: int) -> list[int]:
        return [int(context.identity), start, end]

    return stream_of(builder(read).options(FAIL_ON_DATA_LOSS), **options)


def test_identity_is_in_the_offset_and_in_the_task() -> None:
    SPLITS["a@b"] = Split(0, 3, "7")
    source = identified()
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    assert end == {"a@b@7": 3, "": '{"a@b@7": 0}'}
    assert rows(identified(), start, end) == {"a@b": [7, 0, 3]}


def test_identity_added_later_continues_at_position() -> None:
    SPLITS["a"] = Split(0, 5, "7")
    source = identified()
    entered = source.latestOffset({"a": 3}, ALL)
    assert entered == {"a": 3, "a@7": 3}
    assert list(entered) == ["a", "a@7"]  # functions get the last position of a name
    assert rows(source, entered, source.latestOffset(entered, ALL)) == {"a": [7, 3, 5]}


LOSSES: dict[str, tuple[dict[str, Any], str]] = {
    "re-created": ({"a": Split(0, 2, "8")}, "`a` was deleted and re-created"),
    "vanished": ({}, "`a` does not exist any more"),
    "rows removed": ({"a": Split(4, 9, "7")}, "`a` has 4 to 9 now; the next one was 3"),
    "set back": ({"a": Split(0, 2, "7")}, "`a` has 0 to 2 now; the next one was 3"),
}


@pytest.mark.parametrize("what", LOSSES)
def test_lost_rows_end_the_query(what: str) -> None:
    splits, text = LOSSES[what]
    SPLITS.update(splits)
    with pytest.raises(LookupError, match=text):
        identified().latestOffset({"a@7": 3}, ALL)


def test_lost_rows_are_a_warning_by_option(caplog: pytest.LogCaptureFixture) -> None:
    SPLITS["a"] = Split(1, 2, "8")
    source = identified(failOnDataLoss=False)
    entered = source.latestOffset({"a": 3, "a@7": 3}, ALL)
    assert entered == {"a": 3, "a@7": 3, "a@8": 1}
    assert "was deleted and re-created" in caplog.text
    end = identified().latestOffset(entered, ALL)  # which is reported once
    assert rows(source, entered, end) == {"a": [8, 1, 2]}


def test_identity_needs_the_option_for_lost_rows() -> None:
    SPLITS["a"] = Split(0, 1, "7")
    with pytest.raises(Exception, match="FAIL_ON_DATA_LOSS"):
        stream_of(builder()).initialOffset()


def test_names_may_have_an_at_sign_without_identities() -> None:
    SPLITS["bob@example.com"] = (0, 2)
    source = stream_of(builder())
    assert rows(source, {"bob@example.com": 1}, source.latestOffset({"bob@example.com": 1}, ALL))
    with pytest.raises(Exception, match="`@` separates"):
        identified().initialOffset()


# ---- Positions and limits ------------------------------------------------------------------------


def test_batch_has_a_row_of_each_split_at_least() -> None:
    SPLITS.update({str(number): (0, 50) for number in range(100)})
    source = stream_of(builder(), maxRowsPerTrigger=10)
    found = batches(source, source.initialOffset())
    assert [sum(map(len, batch.values())) for batch in found] == [100] * 50


def test_positions_may_be_strings() -> None:
    SPLITS["sales"] = ("2026-01-01", "2026-01-04")
    days = builder(lambda context, split, start, end: [int(start[-2:]), int(end[-2:])])
    source = stream_of(days)
    start = source.initialOffset()
    assert rows(source, start, source.latestOffset(start, ALL)) == {"sales": [1, 4]}
    with pytest.raises(ValueError, match=r"`sales` .* add a `.bound"):
        stream_of(days, maxRowsPerTrigger=1).latestOffset(start, ReadMaxRows(1))


LINES = ["one\n", "two\n", "three\n", "four\n"]


def bound_by_bytes(context: Any, split: str, start: int, end: int, rows: int | None) -> int:
    """Positions are bytes; a batch ends after a line."""
    ends = [len("".join(LINES[:count])) for count in range(len(LINES) + 1)]
    within = [position for position in ends if start <= position <= end]
    return within[-1] if rows is None else within[min(rows, len(within) - 1)]


def test_bound_ends_a_batch_of_so_many_rows() -> None:
    text = "".join(LINES)
    SPLITS["a"] = (0, len(text))
    source = builder(lambda context, split, start, end: text[start:end].splitlines())
    value = StructType().add("value", "string")
    stream = stream_of(source.bound(bound_by_bytes), value, maxRowsPerTrigger=3)
    found = [batch["a"] for batch in batches(stream, stream.initialOffset())]
    assert found == [["one", "two", "three"], ["four"]]


@pytest.mark.parametrize(("answer", "taken"), [(-5, 3), (99, 9), (3, 3), (6, 6)])
def test_bound_is_kept_within_the_range(answer: int, taken: int) -> None:
    SPLITS["a"] = (0, 9)
    source = stream_of(builder().bound(lambda *_: answer))
    assert source.latestOffset({"a": 3}, ALL) == {"a": taken}


@pytest.mark.parametrize(
    "answer",
    [["a"], {"": (0, 1)}, {"a": 7}, {"a": (0, None)}, {"a": (0, 1.5)}, {"a": (0, "x")}],
)
def test_wrong_splits_are_an_error(answer: Any) -> None:
    with pytest.raises(Exception, match="`look` of the source failed: TypeError"):
        stream_of(builder(look=lambda context: answer)).initialOffset()


# ---- Connections and tasks -----------------------------------------------------------------------


class Connection:
    opened = closed = 0

    def __init__(self, options: Any) -> None:
        Connection.opened += 1

    def close(self) -> None:
        Connection.closed += 1


def connected(**functions: Any) -> Any:
    Connection.opened = Connection.closed = 0
    return builder(**functions).connect(Connection).close(Connection.close).distributed(2, "tasks")


def test_driver_and_tasks_have_one_connection_each() -> None:
    SPLITS.update(a=(2, 3), b=(2, 5))
    source = stream_of(connected())
    assert Connection.opened == 0  # nothing in the constructor
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    assert Connection.opened == 1
    for part in source.partitions(start, end):
        task = stream_of(connected())
        assert list(task.read(part))
        assert (Connection.opened, Connection.closed) == (1, 1)
    source.stop()
    source.stop()
    assert Connection.closed == 2


def test_large_splits_are_cut_and_small_ones_are_not() -> None:
    source = stream_of(connected(), tasks=5)
    parts = source.partitions({"a": 0, "b": 10}, {"a": 5_001, "b": 20})
    assert [(part.split, part.start, part.end) for part in parts] == [
        ("a", 0, 1667),
        ("a", 1667, 3334),
        ("a", 3334, 5001),
        ("b", 10, 20),
    ]


# ---- Batch ---------------------------------------------------------------------------------------


def batch_rows(reader: Any) -> list[list[int]]:
    parts = reader.partitions()
    return [[n for b in reader.read(part) for n in b.column(0).to_pylist()] for part in parts]


def test_batch_reads_what_there_is_when_planned() -> None:
    SPLITS.update(a=(1, 3), b=Split(0, 1, payload=7), c=(5, 5))

    def read(context: Any, split: str, start: int, end: int) -> list[int]:
        return [context.payload or 0, start, end]

    reader = connected(read=read).build()({}).reader(NUMBER)
    assert batch_rows(reader) == [[0, 1, 3], [7, 0, 1]]
    assert Connection.opened == Connection.closed == 3
    assert list(reader.read(InputPartition(None))) == []  # Spark's, when there is none


class Countdown:
    destroyed = 0

    def __init__(self, context: Any) -> None:
        self.next = 3 * (context.index + 1)

    def fill(self, buffer: Any) -> None:
        if self.next % 2:
            buffer.add(self.next)
        self.next -= 1
        if not self.next:
            buffer.close()

    def destroy(self) -> None:
        Countdown.destroyed += 1


def test_batch_reads_each_instance_until_it_closes() -> None:
    source = SourceBuilder.batch("countdown", NUMBER, Countdown).fill(Countdown.fill)
    built: Any = source.destroy(Countdown.destroy).distributed(2).build()
    assert batch_rows(built({}).reader(NUMBER)) == [[3, 1], [5, 3, 1]]
    assert Countdown.destroyed == 2
