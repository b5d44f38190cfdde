"""The checks that try an answer in a real query: a plan, a job, a query that is restarted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tests.unit.workbook import capstone
from tests.unit.workbook.test_checks import answer_of
from tutorial_pkg import item_stream
from tutorial_pkg.core.spark_versions import HAS_STATE
from tutorial_pkg.state import use_rocksdb
from workbook import SCHEMA, NumberReader, Slice, checks


def refuses(check: Any, *answers: tuple[Any, str]) -> None:
    for answer, symptom in answers:
        verdict = check(answer)
        assert not verdict.passed
        assert symptom in verdict.message, verdict


def test_05_2(spark: SparkSession) -> None:
    for delay, counted in ((10, 1295), (60, 2343), (65, 2390), (90, 2390)):
        rows = f"SELECT 1 AS window, {counted} AS count UNION ALL SELECT 1, 7"
        spark.sql(rows).createOrReplaceTempView(f"delay_{delay}")
    assert checks.check_05_2(60).passed
    assert checks.check_05_2(65).passed
    refuses(
        checks.check_05_2,
        (10, "1095 of 2390 lines were dropped (45.8%); expected at most 2 %"),
        (90, "Try a shorter one"),
        (64, "that you have tried"),
        ("65", "that you have tried"),
        ((65, 0), "that you have tried"),
    )


def test_00_1(spark: SparkSession) -> None:
    def query(items: DataFrame, rows: int) -> StreamingQuery:
        query = items.writeStream.format("noop").start()
        wait_until(lambda: sum(b.numInputRows for b in query.recentProgress) >= rows, 60, "rows")
        return query

    running = query(item_stream(spark, 50), 200)
    refuses(checks.check_00_1, (running, "is running"), (running.isActive, "expected a query"))
    running.stop()
    assert checks.check_00_1(running).passed
    for items, rows, symptom in (
        (item_stream(spark, 400), 400, "Items per second: ['400']"),
        (item_stream(spark, 50), 50, "at least 200"),
        (spark.readStream.text(str(Path("data").resolve())), 1, "Items per second: []"),
    ):
        stopped = query(items, rows)
        stopped.stop()
        refuses(checks.check_00_1, (stopped, symptom))


class Draft(WriterCommitMessage):
    def __init__(self, name: str, lines: int = 0) -> None:
        self.name, self.lines = name, lines


class JsonWriter(DataSourceStreamWriter):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def write(self, iterator: Iterator[Any]) -> Draft:
        name = f"{uuid4()}.draft"
        rows = [json.dumps(row.asDict()) + "\n" for row in iterator]
        (self.folder / name).write_text("".join(rows))
        return Draft(name)

    def commit(self, messages: Any, batchId: int) -> None:
        for number, message in enumerate(messages):
            target = self.folder / f"batch-{batchId}-{number}.json"
            (self.folder / message.name).replace(target)

    def abort(self, messages: Any, batchId: int) -> None:
        for message in filter(None, messages):
            (self.folder / message.name).unlink()


class NewNames(JsonWriter):
    def commit(self, messages: Any, batchId: int) -> None:
        for message in messages:
            (self.folder / message.name).rename(self.folder / f"{uuid4()}.json")


class Visible(JsonWriter):
    def write(self, iterator: Iterator[Any]) -> Draft:
        draft = super().write(iterator)
        (self.folder / draft.name).rename(self.folder / f"{draft.name}.json")
        return Draft(f"{draft.name}.json")


class OneDraft(JsonWriter):
    def write(self, iterator: Iterator[Any]) -> Draft:
        draft = super().write(iterator)
        (self.folder / draft.name).replace(self.folder / "draft")
        return Draft("draft")

    def commit(self, messages: Any, batchId: int) -> None:
        (self.folder / "draft").replace(self.folder / f"{batchId}.json")


class KeepsDrafts(JsonWriter):
    def abort(self, messages: Any, batchId: int) -> None:
        pass


def test_01_1(spark: SparkSession) -> None:
    for right in (JsonWriter, NewNames):
        assert checks.check_01_1(right).passed
    refuses(checks.check_01_1, (Visible, "before `commit`"), (OneDraft, "failed_batch"))


def test_01_2(spark: SparkSession) -> None:
    assert checks.check_01_2(JsonWriter).passed
    refuses(checks.check_01_2, (NewNames, "repeated_batch"), (KeepsDrafts, "drafts are left"))


class ParquetFiles(DataSourceStreamArrowWriter):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Draft:
        name = f"{uuid4()}.draft"
        if batches := list(iterator):
            pq.write_table(pa.Table.from_batches(batches), self.folder / name)
        return Draft(name)

    def commit(self, messages: Any, batchId: int) -> None:
        for number, message in enumerate(messages):
            if (self.folder / message.name).exists():
                target = self.folder / f"{batchId}-{number}.parquet"
                (self.folder / message.name).replace(target)


class NewParquetNames(ParquetFiles):
    def commit(self, messages: Any, batchId: int) -> None:
        super().commit(messages, hash(uuid4()))


class NeedsBatch(ParquetFiles):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Draft:
        return super().write(iter([next(iterator), *iterator]))


def test_02_1(spark: SparkSession) -> None:
    assert checks.check_02_1(ParquetFiles).passed
    refuses(
        checks.check_02_1,
        (NewParquetNames, "repeated_batch"),
        (NeedsBatch, "StopIteration"),
        (JsonWriter, "DataSourceStreamArrowWriter"),
    )


class Tail(NumberReader):
    """Emits what is there, also half a line."""

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).stat().st_size}

    def partitions(self, start: Any, end: Any) -> list[Any]:
        return [Slice(start["next"], end["next"])]

    def read(self, part: Any) -> Iterator[tuple[str]]:
        data = Path(self.path).read_bytes()[part.start : part.end]
        yield from ((line.decode(),) for line in data.split(b"\n") if line or not data)


class WholeLines(Tail):
    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).read_bytes().rfind(b"\n") + 1}

    def read(self, part: Any) -> Iterator[tuple[str]]:
        data = Path(self.path).read_bytes()[part.start : part.end]
        yield from ((line.decode(),) for line in data.split(b"\n")[:-1])


class FromTheStart(WholeLines):
    def partitions(self, start: Any, end: Any) -> list[Any]:
        return [Slice(0, end["next"])]


def test_03_1(spark: SparkSession) -> None:
    assert checks.check_03_1(WholeLines).passed
    why = "half a line must wait"
    refuses(checks.check_03_1, (Tail, why), (FromTheStart, why))


class Inbox:
    """The source of notebook 11, with names in a set, which need not be ordered."""

    def __init__(self, context: Any) -> None:
        self.folder, self.names = Path(context.options.letters), dict[str, int]()

    def fill(self, buffer: Any) -> None:
        for letter in self.folder.glob("*.txt"):
            if letter.name not in self.names:
                buffer.add(letter.read_text())
                self.names[letter.name] = 1

    def snapshot(self) -> Any:
        return self.names

    def restore(self, snapshots: Any) -> None:
        [self.names] = snapshots


class Forgets(Inbox):
    def restore(self, snapshots: Any) -> None:
        pass


class ByName(Inbox):
    def fill(self, buffer: Any) -> None:
        for letter in sorted(self.folder.glob("*.txt")):
            if letter.name > max(self.names, default=""):
                buffer.add(letter.read_text())
                self.names[letter.name] = 1


def test_12_3(spark: SparkSession) -> None:
    from spark_connector_tests import StreamSource, examine_source
    from tutorial_pkg import SourceBuilder
    from tutorial_pkg.builder import REQUIRED, not_empty

    def examine(state: Any) -> Any:
        builder = SourceBuilder.stream("inbox", "text STRING", create=state).fill(state.fill)
        builder = builder.snapshot(state.snapshot).restore(state.restore)
        source = builder.option("letters", not_empty, REQUIRED, "the folder").build()

        def describe(folder: Path) -> StreamSource:
            def feed(numbers: Any) -> None:
                for number in numbers:
                    (folder / ".draft").write_text(str(number))
                    (folder / ".draft").rename(folder / f"{number:09}.txt")

            options = {"path": folder / "log", "letters": folder}
            return StreamSource(source, options, number="INT(text)", feed=feed)

        return examine_source(describe, spark, only=["late_rows", "restart"])

    assert checks.check_11_3(Inbox, examine).passed
    assert "restart: " in checks.check_11_3(Forgets, examine).message
    assert "late_rows: " in checks.check_11_3(ByName, examine).message


def test_13(spark: SparkSession) -> None:
    look, read, commit = capstone.look, capstone.read, capstone.commit

    def page_0(context: Any, book: str, start: int, end: int) -> Any:
        rows = capstone.ask(context.options.address, f"PAGE {book} 0")[1:]
        pairs = (row.split(" ", 1) for row in rows)
        return sorted((int(number), text) for number, text in pairs if start <= int(number) < end)

    def blind(context: Any, handles: Any) -> None:
        lines = [line for handle in handles for line in handle]
        request = f"APPEND {context.options.book} {context.query} 1 {len(lines)}"
        capstone.patiently(lambda: lines and capstone.ask(context.options.address, request, lines))

    assert checks.check_13_1(capstone.ask).passed
    refuses(
        checks.check_13_1,
        (lambda address, request, lines=(): ["0"], "APPEND"),
        (lambda *request: capstone.patiently(lambda: capstone.ask(*request)), "trouble 'busy'"),
    )
    assert checks.check_13_2(capstone.source_of(look, read)).passed

    def short(context: Any) -> dict[str, tuple[int, int]]:
        return {book: (first, end - 1) for book, (first, end) in look(context).items()}

    refuses(
        checks.check_13_2,
        (capstone.source_of(look, page_0), "use the numbers"),
        (capstone.source_of(short, read), "LAST + 1"),
        (capstone.sink_of(commit), "Its name is"),
    )
    assert checks.check_13_3(capstone.sink_of(commit)).passed
    refuses(checks.check_13_3, (capstone.sink_of(blind), "too many"))


def test_13_4(spark: SparkSession, tmp_path: Path) -> None:
    from spark_connector_tests import StreamSink, StreamSource
    from workbook import append_once, entries
    from workbook.ledger import LedgerServer

    source = capstone.source_of(capstone.look, capstone.read)
    with LedgerServer(tmp_path / "ledger.db") as server:

        def options(folder: Path) -> dict[str, str]:
            return {"address": server.address, "book": f"{folder.parent.name}-{folder.name}"}

        def my_source(folder: Path) -> StreamSource:
            def feed(numbers: Any) -> None:
                book, texts = options(folder)["book"], [f"{number}" for number in numbers]
                append_once(server.address, book, "kit", texts[0], texts)

            return StreamSource(source, options(folder), number="INT(text)", feed=feed)

        def my_sink(folder: Path) -> StreamSink:
            def read() -> list[str]:
                return entries(server.address, options(folder)["book"])

            return StreamSink(capstone.sink_of(capstone.commit), read, options(folder))

        def one_book(folder: Path) -> StreamSink:
            return StreamSink(capstone.sink_of(capstone.commit), list, options(tmp_path))

        assert checks.check_13_4((my_source, my_sink)).passed
        refuses(checks.check_13_4, ((my_source, one_book), "expected two books"))


def test_corrected_counts(spark: SparkSession) -> None:
    counted_and_passed = passing_query(spark)
    assert checks.check_20_1(answer_of("20_1"), counted_and_passed).passed
    for old, new in (
        ("if database.execute(record, [number]).rowcount:", "if True:"),
        (
            'is_late("time", drop_mark(checkpoint, number), "10 seconds")',
            'F.col("time") < F.lit(drop_mark(checkpoint, number))',
        ),
        ("trades + excluded.trades", "excluded.trades"),
    ):
        verdict = checks.check_20_1(answer_of("20_1", old, new), counted_and_passed)
        assert "each once" in verdict.message, verdict


def passing_query(spark: SparkSession) -> Any:
    """Return the function of notebook 20 that passes on windows and trades."""
    [file] = Path("notebooks").glob("20_*.ipynb")
    cells = ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"]]
    [source] = [text for text in cells if text.startswith("def counted_and_passed")]
    names: dict[str, Any] = {"spark": spark, "SCHEMA": SCHEMA, "F": F}
    exec(source, names)
    return names["counted_and_passed"]


@pytest.mark.skipif(not HAS_STATE, reason="before Spark 4.1 transformWithState takes pandas only")
def test_bursts(spark: SparkSession) -> None:
    use_rocksdb(spark)
    assert checks.check_21_1(answer_of("21_1")).passed
    for old, new, symptom in (
        (
            "max(newest, int(row.time.timestamp() * 1000))",
            "int(row.time.timestamp() * 1000)",
            "newest",
        ),
        ("self.burst.clear()", "self.burst.update((0, 0))", "rows of state are left"),
    ):
        refuses(checks.check_21_1, (answer_of("21_1", old, new), symptom))


@pytest.fixture(autouse=True)
def no_queries(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()
