"""`SourceBuilder.replayable` and `.batch` without Spark: offsets by split, limits, errors."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructType

from tutorial_pkg.builder import OptionValues, SourceBuilder, SplitContext
from tutorial_pkg.builder.functions import Functions
from tutorial_pkg.builder.replayable_source import BuiltReplayableReader
from tutorial_pkg.builder.splits import SplitCalls

NUMBER = StructType().add("number", LongType())
ALL = ReadAllAvailable()

ENDS: dict[str, Any] = {}  # of the splits that there are


@pytest.fixture(autouse=True)
def no_splits() -> None:
    ENDS.clear()


def reader(read: Any = None, firsts: Any = None, **options: int) -> BuiltReplayableReader:
    source = SourceBuilder.replayable(
        "pages",
        NUMBER,
        splits=lambda context: list(ENDS) if firsts is None else firsts,
        latest=lambda context, split, start: ENDS[split],
        read=read or (lambda context, split, start, end: range(start, end)),
    ).build()
    given = {name: str(value) for name, value in options.items()}
    made: Any = source(given).streamReader(NUMBER)  # type: ignore[call-arg]
    return made


def rows(of: BuiltReplayableReader, start: Any, end: Any) -> dict[str, list[int]]:
    return {
        part.split: [n for batch in of.read(part) for n in batch.column(0).to_pylist()]
        for part in of.partitions(start, end)
    }


def test_splits_appear_vanish_and_go_back() -> None:
    ENDS.update(a=3, b=2)
    source = reader()
    start = source.initialOffset()
    one = source.latestOffset(start, ALL)
    assert rows(source, start, one) == {"a": [0, 1, 2], "b": [0, 1]}
    ENDS.update(a=1, c=1)
    del ENDS["b"]
    two = source.latestOffset(one, ALL)
    assert two == {"a": 3, "b": 2, "c": 0}  # c enters; a never goes back, b is kept
    assert rows(source, one, two) == {}
    ENDS.update(a=4, b=5)
    rebuilt = reader()
    three = rebuilt.latestOffset(two, ALL)
    assert rows(rebuilt, two, three) == {"a": [3], "b": [2, 3, 4], "c": [0]}
    assert rebuilt.reportLatestOffset() == {"a": 4, "b": 5, "c": 1}


@pytest.mark.parametrize("later", [{"a": 15}, {"a": 30}, {}])
def test_the_first_batch_is_repeated_from_where_it_began(later: dict[str, int]) -> None:
    """Spark asks for the initial offset again; rows may be deleted by then, or the split away."""
    ENDS.update(a=20)
    source = reader(firsts={"a": 10})
    end = source.latestOffset(source.initialOffset(), ALL)
    assert rows(source, source.initialOffset(), end) == {"a": list(range(10, 20))}
    repeated = reader(firsts=later)
    assert rows(repeated, repeated.initialOffset(), end) == {"a": list(range(10, 20))}
    assert repeated.latestOffset(end, ALL) == end  # nothing is new: no batch
    ENDS.update(a=22)
    again = reader(firsts={"a": 10})
    assert rows(again, end, again.latestOffset(end, ALL)) == {"a": [20, 21]}


def test_a_first_batch_that_an_older_version_has_planned() -> None:
    ENDS.update(a=3)
    source = reader()
    assert rows(source, source.initialOffset(), {"a": 3}) == {"a": [0, 1, 2]}


@pytest.mark.parametrize(
    "other", [{"0": 5, "log": "1a2b3c4d"}, {"positions": {"all": 5}, "batch": {}}]
)
def test_a_checkpoint_of_another_kind_of_source_is_refused(other: Any) -> None:
    """All rows would come again."""
    ENDS.update(log=5)
    for ask in (reader().latestOffset, reader().partitions):
        with pytest.raises(ValueError, match="the checkpoint was written by another kind"):
            ask(other, other)
    assert reader().latestOffset({"log": 3}, ALL) == {"log": 5}


def test_100_splits_share_a_limit() -> None:
    ENDS.update({str(number): 50 for number in range(100)})
    source = reader(maxRowsPerTrigger=1_000)
    offset = source.initialOffset()
    sizes = []
    while (end := source.latestOffset(offset, source.getDefaultReadLimit())) != offset:
        sizes.append(sum(map(len, rows(source, offset, end).values())))
        offset = end
    assert sizes == [1_000] * 5
    assert source.getDefaultReadLimit() == ReadMaxRows(1_000)


def test_a_limit_takes_at_least_one_row_of_each_and_never_more_than_there_is() -> None:
    ENDS.update(a=9, b=1, c=5)
    for most, taken in ((1, {"a": 1, "b": 1, "c": 5}), (5, {"a": 4, "b": 1, "c": 5})):
        source = reader(maxRowsPerTrigger=most)
        assert source.latestOffset({"a": 0, "b": 0, "c": 5}, ReadMaxRows(most)) == taken


def test_available_now_has_an_end_though_the_splits_grow() -> None:
    ENDS.update(a=3)
    source = reader()
    offset = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    ENDS.update(b=2)
    found: list[Any] = []
    while (end := source.latestOffset(offset, ALL)) != offset:
        found.append(rows(source, offset, end))
        offset = end
        ENDS.update({split: end + 1 for split, end in ENDS.items()})
    assert found == [{"a": [0, 1, 2]}, {"b": [0, 1]}]


def test_positions_may_be_texts_and_a_split_may_have_a_first_one() -> None:
    source = SourceBuilder.replayable(
        "days",
        NUMBER,
        splits=lambda context: {"sales": "2026-01-01"},
        latest=lambda context, split, start: "2026-01-04",
        read=lambda context, split, start, end: [int(start[-2:]), int(end[-2:])],
    ).build()
    days: Any = source({}).streamReader(NUMBER)  # type: ignore[call-arg]
    start = days.initialOffset()
    end = days.latestOffset(start, ALL)
    assert end["sales"] == "2026-01-04"
    assert rows(days, start, end) == {"sales": [1, 4]}
    days = source({"maxRowsPerTrigger": "1"}).streamReader(NUMBER)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="texts do not count rows, and split `sales` is at '2026-"):
        days.latestOffset(start, ReadMaxRows(1))


def test_read_may_yield_rows_and_record_batches() -> None:
    ENDS.update(a=4)
    batch = pa.RecordBatch.from_pydict({"number": [1, 2]})
    source = reader(read=lambda context, split, start, end: iter([0, batch, (3,)]))
    assert rows(source, {"a": 0}, {"a": 4}) == {"a": [0, 1, 2, 3]}


@pytest.mark.parametrize("firsts", [{"": 0}, {1: 0}])
def test_a_split_has_a_name(firsts: Any) -> None:
    """The empty one is the offset's own, for where the first batch begins."""
    with pytest.raises(Exception, match="a list of texts, none of them empty, is wanted"):
        reader(firsts=firsts).initialOffset()


@pytest.mark.parametrize(
    ("latest", "text"),
    [
        (
            None,
            "`latest` of split `a` failed: TypeError: a position is a whole number or a text, g",
        ),
        (
            1.5,
            "`latest` of split `a` failed: TypeError: a position is a whole number or a text, go",
        ),
        ("x", "failed: TypeError: positions of one split must be of one type, got 0 and 'x'"),
    ],
)
def test_a_wrong_position_is_named(latest: Any, text: str) -> None:
    ENDS.update(a=latest)
    with pytest.raises(Exception, match=re.escape(text)):
        reader().latestOffset({"a": 0}, ALL)


@pytest.mark.parametrize(
    "given", ["12", {"number": 1}, pd.DataFrame({"number": [1]}), pa.table({"number": [1]})]
)
def test_what_is_no_list_of_rows_is_not_walked_through(given: Any) -> None:
    """Its letters, its keys, its columns' names would be rows."""
    ENDS.update(a=1)
    with pytest.raises(Exception, match="`read` of split `a` failed: TypeError: rows come as a li"):
        rows(reader(read=lambda *_: given), {"a": 0}, {"a": 1})


def test_a_stop_iteration_within_a_map_or_filter_is_not_its_end() -> None:
    def parse(number: int) -> int:
        return number if number < 2 else next(iter([]))

    ENDS.update(a=4)
    with pytest.raises(Exception, match="`read` of split `a` failed: RuntimeError: generator rais"):
        rows(reader(read=lambda *_: map(parse, range(4))), {"a": 0}, {"a": 4})
    with pytest.raises(Exception, match="`read` of split `a` failed: RuntimeError: generator rais"):
        rows(reader(read=lambda *_: filter(parse, range(1, 4))), {"a": 0}, {"a": 4})
    assert rows(reader(read=lambda *_: filter(None, range(4))), {"a": 0}, {"a": 4}) == {
        "a": [1, 2, 3]
    }
    with pytest.raises(
        Exception, match="`splits` of the source failed: RuntimeError: generator ra"
    ):
        reader(firsts=map(chr, map(parse, range(4)))).initialOffset()
    several = reader(read=lambda *_: map(max, range(4), [5, 0, 0]))
    assert rows(several, {"a": 0}, {"a": 4}) == {"a": [5, 1, 2]}


def returns_the_rest(*found: Any) -> Iterator[Any]:
    """A `yield` in it makes a generator of it, and nobody sees what a generator returns."""
    yield from found
    return [1, 2]


def used_up(*found: Any) -> Iterator[Any]:
    rows = (row for row in found)
    assert len(list(rows)) == len(found)
    return rows


def out_of_a_with(*found: Any) -> Iterator[Any]:
    """What `urlopen` returns seems to be empty when it was closed."""
    with Lines(found) as lines:
        return (row for row in lines)


class Lines:
    def __init__(self, rows: tuple[Any, ...]) -> None:
        self.rows, self.closed = iter(rows), False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(iter(()) if self.closed else self.rows)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (out_of_a_with, "ValueError: what the rows come from was closed before they were read"),
        (returns_the_rest, "ValueError: a generator returned [1, 2], which would be left out; yi"),
        (used_up, "ValueError: a generator was walked through before it was returned: nothing is "),
    ],
)
def test_rows_and_splits_that_a_generator_does_not_give_are_missed(made: Any, text: str) -> None:
    ENDS.update(a=1)
    for made_by in (made, lambda *found: map(copy.copy, made(*found))):
        source = reader(read=lambda *_, made_by=made_by: made_by(0))
        with pytest.raises(Exception, match=re.escape(f"`read` of split `a` failed: {text}")):
            rows(source, {"a": 0}, {"a": 1})
        splits = Functions("pages", {"splits": lambda context, made_by=made_by: made_by("a")})
        with pytest.raises(Exception, match=re.escape(f"`splits` of the source failed: {text}")):
            SplitCalls(splits, SplitContext(OptionValues())).firsts()


def test_wrong_splits_and_a_read_that_fails_are_named() -> None:
    with pytest.raises(
        Exception, match=r"ValueError: each split needs a name of its own, got \['a'"
    ):
        reader(firsts=["a", "b", "a"]).initialOffset()
    ENDS[1] = 1  # type: ignore[index]
    with pytest.raises(Exception, match="`splits` of the source failed: TypeError: a list of tex"):
        reader().initialOffset()
    failing = reader(read=lambda context, split, start, end: (1 // 0 for _ in range(1)))
    with pytest.raises(Exception, match="`read` of split `a` failed: ZeroDivisionError: "):
        rows(failing, {"a": 0}, {"a": 1})


# ---- Positions that do not count rows ------------------------------------------------------------

LINES = ["one\n", "two\n", "three\n", "four\n"]


def bound_by_bytes(context: Any, split: str, start: int, end: int, rows: int | None) -> int:
    """Positions are bytes; a batch ends behind a line."""
    ends = [len("".join(LINES[:count])) for count in range(len(LINES) + 1)]
    within = [position for position in ends if start <= position <= end]
    return within[-1] if rows is None else within[min(rows, len(within) - 1)]


def test_bound_says_where_a_batch_of_so_many_rows_ends() -> None:
    text = "".join(LINES)
    ENDS.update(a=len(text))
    built: Any = (
        SourceBuilder.replayable(
            "lines",
            "value STRING",
            lambda context: ["a"],
            lambda context, split, start: ENDS["a"],
            lambda context, split, start, end: text[start:end].splitlines(),
        )
        .bound(bound_by_bytes)
        .build()
    )
    assert "rows in a batch, shared by the splits" in built.__doc__
    source = built({"maxRowsPerTrigger": "3"}).streamReader(StructType().add("value", "string"))
    source.prepareForTriggerAvailableNow()
    offset, found = source.initialOffset(), []
    while (end := source.latestOffset(offset, source.getDefaultReadLimit())) != offset:
        found.append(rows(source, offset, end)["a"])
        offset = end
        ENDS.update(a=len(text) + 100)  # what comes later is another query's
    assert found == [["one", "two", "three"], ["four"]]
    assert source.reportLatestOffset() == {"a": len(text)}


@pytest.mark.parametrize(("answer", "taken"), [(-5, 3), (99, 9), (3, 3), (6, 6)])
def test_a_batch_stays_between_where_it_begins_and_what_there_is(answer: int, taken: int) -> None:
    ENDS.update(a=9)
    builder: Any = SourceBuilder.replayable(
        "pages", NUMBER, lambda _: ["a"], lambda *_: ENDS["a"], lambda *_: []
    )
    source = builder.bound(lambda *_: answer).build()({}).streamReader(NUMBER)
    assert source.latestOffset({"a": 3}, ALL) == {"a": taken}


# ---- What Spark has written down -----------------------------------------------------------------


def test_the_other_side_is_told_what_is_done_on_the_connection_of_the_driver() -> None:
    ENDS.update(a=3)
    told: list[Any] = []
    builder: Any = SourceBuilder.replayable(
        "pages", NUMBER, lambda _: ["a"], lambda *_: ENDS["a"], lambda *_: []
    )
    builder.connect(lambda options: "open").commit(
        lambda context, positions: told.append((context.connection, positions))
    )
    source = builder.build()({}).streamReader(NUMBER)
    end = source.latestOffset(source.initialOffset(), ALL)
    source.commit(end)
    source.commit(end)
    assert told == [("open", {"a": 3})] * 2
    builder.commit(lambda context, positions: 1 // 0)
    with pytest.raises(Exception, match="`commit` of the source failed: ZeroDivisionError"):
        builder.build()({}).streamReader(NUMBER).commit(end)


def test_what_cannot_travel_belongs_into_the_connection() -> None:
    lock = threading.Lock()
    builder: Any = SourceBuilder.replayable(
        "pages", NUMBER, lambda _: [lock], lambda *_: 1, lambda *_: []
    )
    text = "Make such things in `.connect`, which runs where they are used, and keep them in `conte"
    with pytest.raises(ValueError, match=re.escape(text)):
        builder.build()


def test_a_schema_may_come_from_the_options() -> None:
    def schema(options: Any) -> StructType:
        return StructType().add(options.column, "long")

    builder: Any = SourceBuilder.replayable(
        "pages",
        schema,
        lambda context: ["a"],
        lambda context, split, start: 2,
        lambda context, split, start, end: [{context.schema.names[0]: 7}],
    )
    built = builder.option("column", str, "n", "its name").build()
    source = built({"column": "number"})
    assert source.schema() == NUMBER
    assert rows(source.streamReader(NUMBER), {"a": 0}, {"a": 2}) == {"a": [7]}
    assert "Schema: as the options say" in built.__doc__
    with pytest.raises(TypeError, match=r"`schema` must be a function of \(options\)"):
        SourceBuilder.batch("pages", lambda: "n LONG", lambda context: None)  # type: ignore


# ---- Connections, pieces, `spark.read` -----------------------------------------------------------


class Connection:
    opened = closed = 0

    def __init__(self, options: Any) -> None:
        Connection.opened += 1
        self.first = options.first

    def close(self) -> None:
        Connection.closed += 1


def connected(read: Any = None, **options: int) -> Any:
    Connection.opened = Connection.closed = 0
    builder = SourceBuilder.replayable(
        "pages",
        NUMBER,
        splits=lambda context: dict.fromkeys(ENDS, context.connection.first),
        latest=lambda context, split, start: ENDS[split],
        read=read or (lambda context, split, start, end: range(start, end)),
    )
    builder = builder.connect(Connection).close(Connection.close).option("first", int, 0, "place")
    source: Any = builder.distributed(2, "tasks").limit("maxPagesPerTrigger").build()
    return source({name: str(value) for name, value in options.items()})


def test_one_connection_in_the_driver_and_one_in_each_task() -> None:
    ENDS.update(a=3, b=5)
    source = connected(first=2).streamReader(NUMBER)
    assert Connection.opened == 0  # nothing in the constructor
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    assert Connection.opened == 1
    for part in source.partitions(start, end):
        task = connected(first=2).streamReader(NUMBER)
        assert list(task.read(part))
        assert (Connection.opened, Connection.closed) == (1, 1)
    source.stop()
    source.stop()
    assert Connection.closed == 2


def test_a_task_that_fails_closes_its_connection() -> None:
    ENDS.update(a=3)
    failing = connected(read=lambda *_: 1 // 0).streamReader(NUMBER)
    with pytest.raises(Exception, match="`read` of split `a` failed: ZeroDivisionError"):
        rows(failing, {"a": 0}, {"a": 3})
    assert (Connection.opened, Connection.closed) == (1, 1)


def failing_to_close(**functions: Any) -> Any:
    def fails(*_: Any) -> Any:
        raise OSError("no connection")

    given = {"splits": lambda context: ["a"], "latest": lambda *_: 3, "read": fails, **functions}
    builder = SourceBuilder.replayable("pages", NUMBER, **given).close(fails)
    return builder.connect(lambda options: None).build()


def test_the_first_error_counts_when_close_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    built = failing_to_close()
    stream = built({}).streamReader(NUMBER)
    with pytest.raises(Exception, match="`read` of split `a` failed: OSError: no connection"):
        rows(stream, {"a": 0}, {"a": 3})
    assert "after another error: format `pages`: `close` of the source failed" in caplog.text


def test_the_first_error_counts_when_a_batch_is_planned(caplog: pytest.LogCaptureFixture) -> None:
    broken = failing_to_close(latest=lambda *_: 1 // 0)
    with pytest.raises(Exception, match="`latest` of split `a` failed: ZeroDivisionError"):
        broken({}).reader(NUMBER).partitions()
    assert "after another error: format `pages`: `close` of the source failed" in caplog.text


def test_close_that_fails_alone_is_named() -> None:
    built = failing_to_close(read=lambda *_: [1])
    with pytest.raises(Exception, match="`close` of the source failed: OSError: no connection"):
        rows(built({}).streamReader(NUMBER), {"a": 0}, {"a": 3})


def test_splits_are_told_where_the_query_stands() -> None:
    told: list[Any] = []

    def splits(context: Any) -> dict[str, int]:
        told.append((context.batch, context.offset))
        return {"a": 0}

    built: Any = SourceBuilder.replayable(
        "pages", NUMBER, splits, lambda *_: 2, lambda context, split, start, end: range(2)
    ).build()
    built({}).reader(NUMBER).partitions()
    stream = built({}).streamReader(NUMBER)
    stream.latestOffset(stream.initialOffset(), ALL)
    assert told == [(True, None), (False, None), (False, {"a": 0})]


@pytest.mark.parametrize(
    "change", [lambda known: known.setdefault("b", 0), lambda known: known.clear()]
)
def test_splits_may_change_the_offset_that_it_is_told(change: Any) -> None:
    def splits(context: Any) -> list[str]:
        change({} if context.offset is None else context.offset)
        return list(ENDS)

    ENDS.update(a=3)
    source = SourceBuilder.replayable(
        "pages", NUMBER, splits, lambda context, split, start: ENDS[split], read_range
    ).build()
    pages: Any = source({}).streamReader(NUMBER)  # type: ignore[call-arg]
    one = pages.latestOffset(pages.initialOffset(), ALL)
    ENDS.update(a=4, b=2)
    two = pages.latestOffset(copy.deepcopy(one), ALL)
    three = pages.latestOffset(copy.deepcopy(two), ALL)
    assert rows(pages, one, two) == {"a": [3]}
    assert rows(pages, two, three) == {"b": [0, 1]}


def read_range(context: Any, split: str, start: int, end: int) -> range:
    return range(start, end)


def test_large_splits_are_cut_and_small_ones_are_not() -> None:
    source = connected(tasks=5).streamReader(NUMBER)
    parts = source.partitions({"a": 0, "b": 10}, {"a": 5_001, "b": 20})
    assert [(part.split, part.start, part.end) for part in parts] == [
        ("a", 0, 1667),
        ("a", 1667, 3334),
        ("a", 3334, 5001),
        ("b", 10, 20),
    ]
    assert len(connected(tasks=5).streamReader(NUMBER).partitions({"a": 0}, {"a": 2_500})) == 3


def test_the_limit_has_the_name_that_the_builder_gave_it() -> None:
    ENDS.update(a=30, b=30)
    source = connected(maxPagesPerTrigger=10).streamReader(NUMBER)
    assert source.latestOffset({"a": 0, "b": 0}, source.getDefaultReadLimit()) == {"a": 5, "b": 5}
    with pytest.raises(ValueError, match="unknown option `maxRowsPerTrigger`; did you mean `maxP"):
        connected(maxRowsPerTrigger=1).schema()


def test_a_batch_reads_all_there_is_when_it_is_planned() -> None:
    ENDS.update(a=3, b=2)
    source = connected(first=1).reader(NUMBER)
    parts = source.partitions()
    ENDS.update(a=9)
    assert Connection.closed == 1
    found = [
        n for part in parts for batch in source.read(part) for n in batch.column(0).to_pylist()
    ]
    assert found == [1, 2, 1]
    assert list(source.read(InputPartition(None))) == []  # Spark's, when there is none


# ---- Batch ---------------------------------------------------------------------------------------


def batch_rows(source: Any) -> list[list[int]]:
    made = source({}).reader(NUMBER)
    return [
        [n for batch in made.read(part) for n in batch.column(0).to_pylist()]
        for part in made.partitions()
    ]


class Countdown:
    destroyed = 0

    def __init__(self, context: Any) -> None:
        self.left = 3 * (context.index + 1)

    def fill(self, buffer: Any) -> None:
        if self.left % 2:
            buffer.add(self.left)
        self.left -= 1
        if not self.left:
            buffer.close()

    def destroy(self) -> None:
        Countdown.destroyed += 1


def test_batch_reads_each_instance_until_it_closes() -> None:
    builder = SourceBuilder.batch("countdown", NUMBER, Countdown).fill(Countdown.fill)
    Countdown.destroyed = 0
    assert batch_rows(builder.destroy(Countdown.destroy).distributed(2).build()) == [
        [3, 1],
        [5, 3, 1],
    ]
    assert Countdown.destroyed == 2


def test_batch_that_fails_is_named_and_destroyed() -> None:
    builder = SourceBuilder.batch("countdown", NUMBER, Countdown).destroy(Countdown.destroy)
    Countdown.destroyed = 0
    with pytest.raises(
        Exception, match="format `countdown`: `fill` of instance 0 failed: ZeroDivis"
    ):
        batch_rows(builder.fill(lambda state, buffer: 1 // 0).build())
    assert Countdown.destroyed == 1


def test_batch_whose_fill_returns_its_rows_is_told() -> None:
    builder = SourceBuilder.batch("countdown", NUMBER, Countdown)
    with pytest.raises(Exception, match="`fill` of instance 0 failed: TypeError: it returned a li"):
        batch_rows(builder.fill(lambda state, buffer: [3, 2, 1]).build())


def test_the_first_error_counts_when_destroy_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    def fails(state: Any) -> None:
        raise OSError("no connection")

    builder = SourceBuilder.batch("countdown", NUMBER, Countdown).destroy(fails)
    with pytest.raises(Exception, match="`fill` of instance 0 failed: ZeroDivisionError"):
        batch_rows(builder.fill(lambda state, buffer: 1 // 0).build())
    assert "after another error: format `countdown`: `destroy` of instance 0" in caplog.text
    with pytest.raises(Exception, match="`destroy` of instance 0 failed: OSError: no connection"):
        batch_rows(builder.fill(Countdown.fill).build())
