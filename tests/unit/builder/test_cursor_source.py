"""`SourceBuilder.cursor` without Spark: pages, once each, through the log and without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_connector_tests.query_process import wait_until
from tests.stream_runs import NUMBER, running
from tutorial_pkg.builder import CursorSourceBuilder, SourceBuilder, cursor_source
from tutorial_pkg.builder.context import SplitContext
from tutorial_pkg.builder.cursor_source import Pages
from tutorial_pkg.builder.functions import FunctionError, Functions

pytestmark = pytest.mark.usefixtures("in_process")


class Service:
    """Numbers by split, in pages of ten; positions are how many came before."""

    def __init__(self, **numbers: list[int]) -> None:
        self.numbers = numbers
        self.asked: list[tuple[str, Any]] = []  # pages with rows

    def read(self, context: Any, split: str, position: Any) -> tuple[Any, Any]:
        start = position or 0
        page = self.numbers[split][start : start + 10]
        if page:
            self.asked.append((split, position))
        return page, start + len(page)

    def builder(self) -> CursorSourceBuilder:
        splits = lambda context: list(self.numbers)  # noqa: E731
        return SourceBuilder.cursor("pages", NUMBER, self.read).splits(splits)


def cursor(read: Callable[..., Any]) -> CursorSourceBuilder:
    return SourceBuilder.cursor("pages", NUMBER, read)


def values(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def batch(reader: Any, start: Any, end: Any) -> list[int]:
    parts = reader.partitions(start, end)
    return [number for part in parts for number in values(reader.read(part))]


def batches(reader: Any, start: Any) -> tuple[list[list[int]], Any]:
    """Run a query with the trigger `availableNow`; return its rows and last offset."""
    reader.prepareForTriggerAvailableNow()
    found, limit = [], reader.getDefaultReadLimit()
    start = start or reader.initialOffset()
    while (end := reader.latestOffset(start, limit)) != start:
        found.append(batch(reader, start, end))
        start = end
    reader.stop()
    return found, start


# ---- Through the log -----------------------------------------------------------------------------


def test_threads_share_splits_in_any_number(tmp_path: Path) -> None:
    service = Service(**{f"s{place}": list(range(place, 100, 7)) for place in range(7)})
    source, offset = service.builder().distributed(3).build(), None
    expected = list(range(100))
    for count in (3, 1, 5):
        with running(source, tmp_path, offset, parallelism=count, pollSeconds=0) as run:
            rows: list[int] = []
            while len(rows) < len(expected):
                rows += run.rows_until(bool)
            assert sorted(rows) == expected
            offset = run.offset
        expected = [1_000 + number for number in range(7)]
        for numbers, number in zip(service.numbers.values(), expected, strict=True):
            numbers.append(number)
    assert len(set(service.asked)) == len(service.asked)


def test_available_now_reads_all_pages_and_ends(tmp_path: Path) -> None:
    """Also with a backlog of one page."""
    source: Any = Service(a=list(range(95)), b=[]).builder().build()
    options = {"path": str(tmp_path), "maxRowsPerTrigger": "10", "maxBacklogBytes": "1"}
    found, end = batches(source(options).streamReader(NUMBER), None)
    assert list(chain(*found)) == list(range(95))
    assert list(map(len, found)) == [10] * 9 + [5]
    assert batches(source(options).streamReader(NUMBER), end) == ([], end)


def test_stream_without_a_path_says_so() -> None:
    """Not before Spark asks it: errors of a reader's constructor are unreadable."""
    source: Any = Service(a=[]).builder().build()
    reader = source({}).streamReader(NUMBER)
    with pytest.raises(ValueError, match="option `path` is missing"):
        reader.initialOffset()


def test_new_split_keeps_its_first_position(tmp_path: Path) -> None:
    """The query stops before the split has any rows."""
    numbers: dict[str, list[int]] = {"a": [0]}
    looks = list[int]()

    def splits(context: SplitContext) -> dict[str, int]:
        looks.append(len(numbers))
        return {split: len(rows) for split, rows in numbers.items()}

    builder = cursor(lambda _, split, at: (numbers[split][at:], len(numbers[split])))
    source = builder.splits(splits).build()
    with running(source, tmp_path, pollSeconds=0) as run:
        assert run.rows() == []
        offset = run.offset
        for split, first in {"b": [1, 2], "c": [3]}.items():
            numbers[split] = first
            wait_until(lambda: run.latest() and looks[-4:] == [len(numbers)] * 4, 60, "looks")
    for added, rows in enumerate(numbers.values(), 10):
        rows.append(added)
    with running(source, tmp_path, offset, pollSeconds=0) as run:
        assert sorted(run.rows_until(lambda rows: len(rows) == 3)) == [10, 11, 12]


# ---- Without a log -------------------------------------------------------------------------------


def reader_of(service: Service, **options: object) -> Any:
    source: Any = service.builder().replayable().build()
    return source({name: str(value) for name, value in options.items()}).streamReader(NUMBER)


def test_repeated_batch_has_the_same_rows() -> None:
    service = Service(a=list(range(25)), b=list(range(100, 112)))
    reader = reader_of(service, pollSeconds=0)
    start = reader.initialOffset()
    one = json.loads(json.dumps(reader.latestOffset(start, ReadMaxRows(10_000))))
    first = batch(reader, start, one)
    assert sorted(first) == [*range(25), *range(100, 112)]
    assert len(set(service.asked)) == len(service.asked) == 5
    assert reader.latestOffset(one, ReadMaxRows(10_000)) == one
    service.numbers["a"] += range(25, 30)
    two = reader.latestOffset(one, ReadMaxRows(10_000))
    again = reader_of(service)
    assert batch(again, start, one) == first  # though the last page has more rows now
    assert batch(again, one, two) == batch(reader, one, two) == list(range(25, 30))
    assert again.latestOffset(two, ReadMaxRows(10_000)) == two


def test_limit_counts_rows_and_cuts_no_page() -> None:
    reader = reader_of(Service(a=list(range(45)), b=list(range(100, 123))), maxRowsPerTrigger=25)
    assert list(map(len, batches(reader, None)[0])) == [30, 33, 5]


@pytest.mark.parametrize("gone", [1, 12])
def test_rows_gone_from_a_batch_end_the_query(gone: int) -> None:
    service = Service(a=list(range(12)))
    reader = reader_of(service)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(1_000))
    end["batch"]["a"].append(1234)  # an earlier version added a checksum
    del service.numbers["a"][:gone]
    with pytest.raises(LookupError, match=f"split `a`: {gone} of the 12 rows from position None"):
        batch(reader_of(service), start, end)


def test_slow_pages_end_a_batch_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_source, "FETCH_SECONDS", 0.0)
    for prepare, rows in ((False, 10), (True, 45)):
        reader = reader_of(Service(a=list(range(45))))
        if prepare:
            reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1_000))
        assert end["positions"] == {"a": rows}


# ---- Both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("without_log", [False, True])
def test_batch_reads_all_pages_of_all_splits(without_log: bool) -> None:
    service = Service(a=list(range(25)), b=[], c=[100])
    builder = service.builder().replayable() if without_log else service.builder()
    source: Any = builder.build()
    reader = source({}).reader(NUMBER)
    rows = {part.split: values(reader.read(part)) for part in reader.partitions()}
    assert rows == {"a": list(range(25)), "b": [], "c": [100]}


@pytest.mark.parametrize("without_log", [False, True])
def test_first_position_is_kept_without_rows(tmp_path: Path, without_log: bool) -> None:
    numbers, options = list(range(10)), {} if without_log else {"path": str(tmp_path)}
    builder = cursor(lambda _, split, at: (numbers[at:], len(numbers)))
    builder = builder.splits(lambda c: {"all": offsets.append(c.offset) or len(numbers)})
    source: Any = (builder.replayable() if without_log else builder).build()
    start: Any = None
    offsets: list[Any] = []
    for expected in ([], [10, 11, 12], [13, 14, 15]):
        reader = source({"pollSeconds": "0", **options}).streamReader(NUMBER)
        found, start = batches(reader, start)
        assert list(chain(*found)) == expected
        numbers += range(len(numbers), len(numbers) + 3)
    assert offsets == [None, {"all": 10}, {"all": 13}]


@pytest.mark.parametrize("without_log", [False, True])
def test_checkpoint_of_other_kind_is_refused(tmp_path: Path, without_log: bool) -> None:
    builder = Service(all=[1]).builder()
    source: Any = (builder.replayable() if without_log else builder).build()
    reader = source({} if without_log else {"path": str(tmp_path)}).streamReader(NUMBER)
    others = [{"0": 5, "log": "1a2b3c4d"}] if without_log else [{"positions": {}, "batch": {}}]
    for other in [*others, {"all": "a"}]:
        for ask in (reader.latestOffset, reader.partitions):
            with pytest.raises(ValueError, match="another kind"):
                ask(other, other)
    reader.stop()


# ---- What `read` returns -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (([1], None), "ValueError: the next position is None"),
        (([], None), "ValueError: the next position is None"),
        (([1], ""), "ValueError: the next position is ''"),
        (([1], "x"), "ValueError"),
        ([1], "TypeError"),
        (("1", 2), "TypeError"),
        (([], float("nan")), "ValueError"),
        ((["a"], 2), "ValueError: column `number`"),
    ],
)
def test_wrong_page_is_an_error(answer: Any, error: str) -> None:
    source: Any = cursor(lambda *_: answer).splits(lambda _: {"a": "x"}).build()
    reader = source({}).reader(NUMBER)
    with pytest.raises(FunctionError, match=f"`read` of split `a` at position 'x' failed: {error}"):
        list(reader.read(reader.partitions()[0]))


def test_positions_may_be_any_json() -> None:
    record_batch = pa.RecordBatch.from_pydict({"number": [1, 2]})
    pages: dict[str, Any] = {
        "null": (record_batch, ("a", 1)),
        '["a", 1]': ([record_batch, 3, (4,)], {"token": "b"}),
        '{"token": "b"}': (iter([5]), "end"),
        '"end"': ([], "end"),
    }
    source: Any = cursor(lambda _, split, at: pages[json.dumps(at)]).build()
    reader = source({}).reader(NUMBER)
    assert values(reader.read(reader.partitions()[0])) == [1, 2, 1, 2, 3, 4, 5]


def test_read_may_change_its_position() -> None:
    def read(context: Any, split: str, position: Any) -> tuple[list[int], Any]:
        position = position or {"page": 0}
        if position["page"] == 3:
            return [], position
        position["page"] += 1
        return [position["page"]], position

    source: Any = cursor(read).build()
    reader = source({}).reader(NUMBER)
    assert values(reader.read(reader.partitions()[0])) == [1, 2, 3]


def test_splits_take_turns_and_rest_at_their_end() -> None:
    service = Service(a=list(range(20)), b=[1])
    functions = {"read": service.read, "splits": lambda _: list(service.numbers)}
    options: Any = SimpleNamespace(pollSeconds=0)
    context = SplitContext(options, schema=NUMBER)
    pages = Pages(Functions("pages", functions), context)

    def asked() -> str:
        return "".join(page.split for page in iter(pages.next_page, None))

    pages.look()
    assert asked() == "ababa"
    service.numbers = {"a": list(range(21)), "c": [9]}
    assert asked() == ""
    pages.look()
    assert asked() == "acac"
    assert pages.positions == {"a": 21, "b": 1, "c": 1}


def test_available_now_ends_though_a_split_grows() -> None:
    """Each split is read to its end once."""
    service = Service(a=[0], b=list(range(100, 130)))
    source: Any = service.builder().replayable().build()
    reader = source({"maxRowsPerTrigger": "10", "pollSeconds": "0"}).streamReader(NUMBER)
    reader.prepareForTriggerAvailableNow()
    start, rows = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadAllAvailable())) != start:
        rows += batch(reader, start, end)
        start = end
        service.numbers["a"].append(1)
    assert sorted(rows) == [0, *range(100, 130)]
