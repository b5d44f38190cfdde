"""Delta tables as a source and a sink, without Spark; beside them, delta-rs' own functions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructType

from tests.properties import IN_FOLDERS
from tests.stream_runs import ALL, Run
from tutorial_pkg.builder import BatchContext, RowPacker, SinkContext, TargetContext
from tutorial_pkg.connectors.delta import DeltaDataSource, source
from tutorial_pkg.connectors.delta.options import WRITE
from tutorial_pkg.connectors.delta.sink import Upload, check, publish
from tutorial_pkg.connectors.delta.table import open_table
from tutorial_pkg.core.options import Options

NUMBERS = StructType().add("id", LongType()).add("item", StringType())
QUERY = "11112222-3333"


class Query:
    """One driver with its tasks, without Spark."""

    def __init__(self, folder: Path | str, schema: StructType = NUMBERS, **given: object) -> None:
        texts = {name: str(value) for name, value in {"path": folder, **given}.items()}
        self.options = Options("delta_py", WRITE).parse(texts)
        self._packer = RowPacker(schema)
        check(TargetContext(schema, self.options))

    def upload(self, batch: int, task: int, found: list[Any]) -> Any:
        upload = Upload(SinkContext(QUERY, batch, task, self.options))
        if found:
            upload.receive_batch(self._packer.pack(found))
        handle = upload.flush()
        upload.close()
        return handle

    def commit(self, batch: int, handles: list[Any]) -> None:
        publish(BatchContext(QUERY, batch, self.options), handles)

    def write(self, batch: int, *tasks: list[Any]) -> None:
        self.commit(batch, [self.upload(batch, task, each) for task, each in enumerate(tasks)])


def content(folder: Path) -> list[tuple[Any, ...]]:
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def in_duckdb(query: str) -> str:
    """In a process of its own: it complains about leaks when it ends."""
    code = f"import duckdb; print(duckdb.sql({query!r}).fetchall())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def stream(folder: Path, offset: Any = None, **given: object) -> Run:
    texts = {name: str(value) for name, value in given.items()}
    schema: Any = DeltaDataSource({"path": str(folder), **texts}).schema()
    run = Run(DeltaDataSource, folder, schema, texts)
    run.offset = offset or run.offset
    return run


def table(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **more})


# ---- Writing -------------------------------------------------------------------------------------


def test_a_table_is_made_and_other_tools_read_it(tmp_path: Path) -> None:
    query = Query(tmp_path, partitionBy="item")
    query.write(0, [(1, "a"), (2, "b/ ä%")], [(3, None), (4, "a")], [])
    wanted = {(1, "a"), (2, "b/ ä%"), (3, None), (4, "a")}
    found = DeltaTable(tmp_path).to_pyarrow_table(columns=["id", "item"]).to_pylist()
    assert {tuple(row.values()) for row in found} == wanted
    files = DeltaTable(tmp_path).file_uris()
    assert in_duckdb(f"SELECT count(*), sum(id) FROM read_parquet({files})") == "[(4, 10)]"


def test_a_batch_counts_once(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.write(0, [(1, "a")])
    query.write(1, [(2, "b")], [(3, "c")])
    query.write(1, [(2, "b")], [(3, "c")])
    assert content(tmp_path) == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(RuntimeError, match=r"has batch 1 of this query, and now comes batch 0"):
        query.write(0, [(1, "a")])


def test_of_two_drivers_one_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has looked at the table before the first one has committed."""
    from tutorial_pkg.connectors.delta import sink

    one, other = Query(tmp_path), Query(tmp_path)
    handles = one.upload(0, 0, [(1, "a")]), other.upload(0, 0, [(1, "a")])
    opened = sink.open_table

    def meanwhile(options: Any) -> DeltaTable:
        found = opened(options)
        monkeypatch.setattr(sink, "open_table", opened)
        other.commit(0, [handles[1]])
        return found

    monkeypatch.setattr(sink, "open_table", meanwhile)
    one.commit(0, [handles[0]])
    assert content(tmp_path) == [(1, "a")]


def test_a_job_whose_commit_is_tried_again_counts_once(tmp_path: Path) -> None:
    """No answer came back to the first try. A stream of appended rows would see both versions."""
    query = Query(tmp_path)
    job = BatchContext("job", 0, query.options, streaming=False)
    handles = [query.upload(0, 0, [(1, "a")])]
    for _ in range(2):
        publish(job, handles)
    assert stream(tmp_path, startingVersion=0).rows() == [1]


def test_another_writer_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tutorial_pkg.connectors.delta import sink

    for mode, key in (("append", ""), ("upsert", "id")):
        folder = tmp_path / mode
        query = Query(folder, mode=mode, **({"key": key} if key else {}))
        handle = query.upload(0, 0, [(1, "a")])
        opened = sink.open_table

        def meanwhile(options: Any, opened: Any = opened, folder: Path = folder) -> DeltaTable:
            found = opened(options)
            monkeypatch.setattr(sink, "open_table", opened)
            write_deltalake(folder, table(7, item=["other"]), mode="append")
            return found

        monkeypatch.setattr(sink, "open_table", meanwhile)
        query.commit(0, [handle])
        assert content(folder) == [(1, "a"), (7, "other")]


def test_upsert_replaces_by_key_and_leaves_nothing_staged(tmp_path: Path) -> None:
    query = Query(tmp_path, mode="upsert", key="id")
    query.upload(0, 0, [(9, "of a killed task")])
    query.write(0, [(1, "a"), (2, "b")], [(3, "c")])
    query.write(1, [(2, "B")], [(4, None)])
    query.write(1, [(2, "B")], [(4, None)])
    assert content(tmp_path) == [(1, "a"), (2, "B"), (3, "c"), (4, None)]
    assert not [file for file in (tmp_path / "_staged").rglob("*") if file.is_file()]
    with pytest.raises(ValueError, match=r"several rows with the same key \(id\)"):
        query.write(2, [(1, "x")], [(1, "y")])
    with pytest.raises(ValueError, match=r"a row's key \(id\) must not be null"):
        query.write(2, [(None, "x")])


def test_the_schema_is_enforced_or_evolved(tmp_path: Path) -> None:
    Query(tmp_path).write(0, [(1, "a")])
    more = StructType([*NUMBERS]).add("price", LongType())
    with pytest.raises(ValueError, match=r"has no column `price`.*`evolve` true"):
        Query(tmp_path, more)
    with pytest.raises(ValueError, match=r"column `id` is string, and in the table bigint"):
        Query(tmp_path, StructType().add("id", StringType()))
    Query(tmp_path, more, evolve="true").write(1, [(2, "b", 30)])
    Query(tmp_path, StructType().add("id", LongType())).write(2, [(3,)])
    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "a", None), (2, "b", 30), (3, None, None)]


def test_rules_of_a_table_are_kept_or_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string())])
    DeltaTable.create(tmp_path / "a", schema)
    query = Query(tmp_path / "a")
    with pytest.raises(ValueError, match="column `id` of the table must not be null"):
        query.write(0, [(None, "a")])
    query.write(0, [(1, "a")])
    write_deltalake(tmp_path / "b", table(1))
    DeltaTable(tmp_path / "b").alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ValueError, match="table with rules for its rows"):
        Query(tmp_path / "b", StructType().add("id", LongType()))


OTHER = pa.table({"id": pa.array([9], pa.int64()), "other": ["x"]})
ALTERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "columns": (lambda folder: overwrite(folder, OTHER), "has no column `item`; choose"),
    "types": (
        lambda folder: overwrite(folder, table(9, item=[1])),
        "`item` is string, and in the t",
    ),
    "parts": (
        lambda folder: overwrite(folder, table(9, item=["x"]), partition_by="item"),
        "or is cut by others: start the query again",
    ),
    "rules": (
        lambda folder: DeltaTable(folder).alter.add_constraint({"few": "id < 5"}),
        "cannot write to a table with rules",
    ),
}


def overwrite(folder: Path, rows: pa.Table, **more: Any) -> None:
    write_deltalake(folder, rows, mode="overwrite", schema_mode="overwrite", **more)


@pytest.mark.parametrize("what", ALTERED)
@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": "id"}])
def test_a_table_that_was_altered_meanwhile_takes_no_batch(
    tmp_path: Path, what: str, mode: dict[str, str]
) -> None:
    """Its rows would come out with nulls, or break a rule."""
    alter, text = ALTERED[what]
    query = Query(tmp_path, **mode)
    query.write(0, [(1, "a")])
    written = query.upload(1, 0, [(20, "b")])
    alter(tmp_path)
    version = DeltaTable(tmp_path).version()
    if mode and what == "parts":  # there the client cuts the rows
        query.commit(1, [written])
        assert (20, "b") in content(tmp_path)
        return
    with pytest.raises((ValueError, RuntimeError), match=text):
        query.commit(1, [written])
    assert DeltaTable(tmp_path).version() == version


def test_a_table_that_only_grows_is_not_upserted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is said at once, and not after other writers were waited for."""
    from tutorial_pkg.connectors.delta import sink

    only = {"delta.appendOnly": "true"}
    write_deltalake(tmp_path, table(1, item=["a"]), configuration=only)
    Query(tmp_path).write(0, [(2, "b")])
    query, tries = Query(tmp_path, mode="upsert", key="id"), list[Any]()
    monkeypatch.setattr(sink, "open_table", lambda options: tries.append(1) or open_table(options))
    with pytest.raises(CommitFailedError, match="append-only"):
        query.write(1, [(2, "c")])
    assert tries == [1]


def test_all_sums_of_an_aggregation_may_be_upserted_and_not_appended(tmp_path: Path) -> None:
    def context(overwrite: bool, streaming: bool, **given: str) -> TargetContext:
        options = Options("delta_py", WRITE).parse({"path": str(tmp_path), **given})
        return TargetContext(NUMBERS, options, streaming, overwrite)

    check(context(True, True, mode="upsert", key="id"))
    for streaming, given in ((True, {}), (False, {}), (False, {"mode": "upsert", "key": "id"})):
        with pytest.raises(ValueError, match="output mode `complete` is for mode=upsert"):
            check(context(True, streaming, **given))


def test_a_key_belongs_to_upsert(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="option `key` is for mode=upsert, which needs it"):
        Query(tmp_path, mode="upsert")
    with pytest.raises(ValueError, match=r"the rows have no column \['x'\]"):
        Query(tmp_path, mode="upsert", key="x")


# ---- Reading -------------------------------------------------------------------------------------


def test_a_stream_begins_with_the_table_and_goes_on_with_what_is_appended(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1, 2))
    write_deltalake(tmp_path, table(3), mode="append")
    run = stream(tmp_path)
    assert sorted(run.rows()) == [1, 2, 3]
    write_deltalake(tmp_path, table(4), mode="append")
    DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, table(5), mode="append")
    again = stream(tmp_path, run.offset, parallelism=9)
    assert sorted(again.rows()) == [4, 5]
    assert again.rows() == []
    assert set(again.offset.values()) == {5}


def test_a_table_that_grows_while_it_is_looked_at_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each split asks for itself, and the table is another one each time."""
    write_deltalake(tmp_path, table(0))
    run = stream(tmp_path, parallelism=3)
    found = run.rows()

    def grow_and_open(*asked: Any) -> DeltaTable:
        there = open_table(*asked)
        write_deltalake(tmp_path, table(there.version() + 1), mode="append")
        return there

    monkeypatch.setattr(source, "open_table", grow_and_open)
    for _ in range(4):
        found += run.rows()
        assert len(set(run.offset.values())) == 1
    assert sorted(found) == list(range(len(found)))
    assert len(found) > 3


def test_a_stream_may_begin_with_a_version_and_take_a_few_at_a_time(tmp_path: Path) -> None:
    for number in range(7):
        write_deltalake(tmp_path, table(number), mode="append")
    run = stream(tmp_path, startingVersion=2, maxVersionsPerTrigger=2)
    batches = []
    while True:
        end = run.reader.latestOffset(run.offset, run.reader.getDefaultReadLimit())
        if end == run.offset:
            break
        parts = run.reader.partitions(run.offset, end)
        found = [batch for part in parts for batch in run.reader.read(part)]
        batches.append([value for batch in found for value in batch.column(0).to_pylist()])
        run.offset = end
    assert batches == [[2, 3], [4, 5], [6]]


def test_deleted_rows_end_a_stream_of_appended_ones_or_are_left_out(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1, 2))
    refusing, skipping = stream(tmp_path), stream(tmp_path, rewritten="skip")
    assert sorted(refusing.rows()) == sorted(skipping.rows()) == [1, 2]
    DeltaTable(tmp_path).delete("id = 1")
    write_deltalake(tmp_path, table(3), mode="append")
    with pytest.raises(Exception, match=r"version 1 of .* deletes or updates rows"):
        refusing.rows()
    assert skipping.rows() == [3]


def test_changes_come_from_the_change_feed(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, table(1, 2), configuration=feed)
    run = stream(tmp_path, changes="true")
    assert sorted(run.rows()) == [1, 2]
    DeltaTable(tmp_path).delete("id = 1")
    Query(tmp_path, StructType().add("id", LongType())).write(0, [(3,)])
    start, end = run.offset, run.latest()
    parts = run.reader.partitions(start, end)
    rows = [row for part in parts for batch in run.reader.read(part) for row in batch.to_pylist()]
    told = Counter((row["_change_type"], row["id"], row["_commit_version"]) for row in rows)
    assert told == Counter([("delete", 1, 1), ("insert", 3, 2)])
    assert all(row["_commit_timestamp"].year > 2000 for row in rows)


def test_without_a_change_feed_there_are_no_changes(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1))
    with pytest.raises(Exception, match=r"has no change feed; set `delta\.enableChangeDataFeed`"):
        stream(tmp_path, changes="true")


def test_a_table_that_was_made_again_or_set_back_is_noticed(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "a", table(1))
    write_deltalake(tmp_path / "a", table(2), mode="append")
    run = stream(tmp_path / "a")
    run.rows()
    (tmp_path / "a" / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(Exception, match="was set back to an older copy"):
        run.rows()
    (tmp_path / "a").rename(tmp_path / "old")
    for number in range(5):
        write_deltalake(tmp_path / "a", table(number), mode="append")
    with pytest.raises(Exception, match="was dropped and made again"):
        stream(tmp_path / "a", run.offset).rows()


def test_a_table_that_is_made_again_before_its_rows_are_read(tmp_path: Path) -> None:
    """Rows of the new table were taken for those that had been planned."""
    feed = {"delta.enableChangeDataFeed": "true"}
    asked: list[dict[str, str]] = [{}, {"startingVersion": "1"}, {"changes": "true"}]
    for number, given in enumerate(asked):
        folder = tmp_path / str(number)
        for name in (folder, tmp_path / "other"):
            write_deltalake(name, table(1), configuration=feed, mode="overwrite")
            write_deltalake(name, table(2), mode="append")
        source = DeltaDataSource({"path": str(folder), **given})
        reading = source.streamReader(source.schema())
        start = reading.initialOffset()
        parts = reading.partitions(start, reading.latestOffset(start, ALL))
        batch = DeltaDataSource({"path": str(folder)}).reader(source.schema())
        planned = batch.partitions()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "other", folder)
        for read, some in ((reading.read, parts), (batch.read, planned)):
            with pytest.raises(Exception, match="was dropped and made again: its identity is"):
                [list(read(part)) for part in some]


def test_a_version_that_the_log_has_forgotten_ends_the_query(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1))
    run = stream(tmp_path)
    run.rows()
    for number in range(2):
        write_deltalake(tmp_path, table(number), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(Exception, match="version 1 is not in the table's log any more"):
        run.rows()


def batch(folder: Path, **given: object) -> list[dict[str, Any]]:
    texts = {"path": str(folder), **{name: str(value) for name, value in given.items()}}
    source = DeltaDataSource(texts)
    reader: Any = source.reader(source.schema())  # type: ignore[arg-type]
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def test_values_of_all_types_and_an_earlier_version(tmp_path: Path) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    kinds = {
        "i": pa.int32(),
        "s": pa.string(),
        "t": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"),
        "d": pa.date32(),
        "e": pa.decimal128(10, 2),
        "b": pa.bool_(),
        "bin": pa.binary(),
        "l": pa.list_(pa.int64()),
        "st": pa.struct([("x", pa.int64())]),
    }
    schema = from_arrow_schema(pa.schema(list(kinds.items())), prefer_timestamp_ntz=True)
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    full = {
        "i": 1,
        "s": "a/b",
        "t": moment,
        "n": moment.replace(tzinfo=None),
        "d": date(2026, 1, 2),
        "e": Decimal("1.20"),
        "b": True,
        "bin": b"\xff",
        "l": [1, None],
        "st": {"x": 2},
    }
    rows = [full, dict.fromkeys(full)]
    query = Query(tmp_path, schema, partitionBy="s, d, b, e, i")
    query.write(0, rows)
    query.write(1, [full])
    assert sorted(batch(tmp_path, version=1), key=repr) == sorted(rows, key=repr)
    assert len(batch(tmp_path)) == 3
    other = DeltaTable(tmp_path, version=1).to_pyarrow_table().to_pylist()
    assert sorted(other, key=repr) == sorted(rows, key=repr)


def test_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"there is no Delta table at {tmp_path}"):
        stream(tmp_path)
    write_deltalake(tmp_path / "t", table(1))
    with pytest.raises(ValueError, match="cannot be read in version 9"):
        batch(tmp_path / "t", version=9)


# ---- What no error told once ---------------------------------------------------------------------


def entry_of(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


def with_other_names(folder: Path) -> None:
    """A table whose column `id` has another name in its files, as other tools make it."""
    write_deltalake(folder, pa.table({"col-1": [1]}))
    actions = [json.loads(line) for line in entry_of(folder, 0).read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            other = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
            schema["fields"][0] |= {"name": "id", "metadata": other}
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    entry_of(folder, 0).write_text("\n".join(map(json.dumps, actions)))


def test_columns_under_other_names_are_refused(tmp_path: Path) -> None:
    """They came as nulls, and what was written was null for others."""
    with_other_names(tmp_path)
    ids = StructType().add("id", LongType())
    for work in (
        lambda: batch(tmp_path),
        lambda: stream(tmp_path, startingVersion=0),
        lambda: Query(tmp_path, ids),
        lambda: Query(tmp_path, ids, mode="upsert", key="id"),
    ):
        with pytest.raises(Exception, match=r"other names than its files .*Mapping\.mode=name"):
            work()


def test_a_column_that_comes_later_ends_the_query_and_the_next_one_reads_it(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1))
    run = stream(tmp_path)
    assert run.rows() == [1]
    done = run.offset
    write_deltalake(tmp_path, table(2, price=[7]), mode="append", schema_mode="merge")
    with pytest.raises(Exception, match=r"columns that the query does not know \(price\)"):
        run.rows()
    again = stream(tmp_path, done)
    parts = again.reader.partitions(done, again.latest())
    found = [row for part in parts for each in again.reader.read(part) for row in each.to_pylist()]
    assert found == [{"id": 2, "price": 7}]


def test_a_version_without_content_ends_the_query(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1))
    run = stream(tmp_path)
    run.rows()
    write_deltalake(tmp_path, table(2), mode="append")
    entry_of(tmp_path, 1).write_text("")
    with pytest.raises(Exception, match="version 1 is empty in the table's log"):
        run.rows()


def test_nulls_that_a_table_forbids_anywhere(tmp_path: Path) -> None:
    required = pa.field("item", pa.string(), nullable=False)
    cut = pa.schema([("id", pa.int64()), required])
    DeltaTable.create(tmp_path / "cut", cut, partition_by=["item"])
    for value in (None, ""):
        with pytest.raises(ValueError, match="column `item` of the table must not be null"):
            Query(tmp_path / "cut").write(0, [(1, value)])
    DeltaTable.create(tmp_path / "nested", pa.schema([("st", pa.struct([required]))]))
    nested = StructType().add("st", StructType().add("item", StringType()))
    with pytest.raises(ValueError, match="column `st` of the table has values inside that must"):
        Query(tmp_path / "nested", nested)


def test_values_that_cut_a_table_are_what_other_tools_read(tmp_path: Path) -> None:
    folder = tmp_path / "a b ä"
    feed = {"delta.enableChangeDataFeed": "true"}
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    DeltaTable.create(folder, schema, partition_by=["item"], configuration=feed)
    Query(folder).write(0, [*enumerate(IN_FOLDERS), (99, "")])
    wanted = {**dict(enumerate(IN_FOLDERS)), 99: None}  # Delta has no empty text there
    told = {row["id"]: row["item"] for row in batch(folder)}
    other = {row["id"]: row["item"] for row in DeltaTable(folder).to_pyarrow_table().to_pylist()}
    assert told == other == wanted
    files = [unquote(uri.removeprefix("file://")) for uri in DeltaTable(folder).file_uris()]
    assert in_duckdb(f"SELECT sum(id) FROM read_parquet({files})") == f"[({sum(wanted)},)]"
    run = stream(folder, changes="true", startingVersion=0)
    assert {row["id"]: row["item"] for row in next_rows(run, run.latest())} == wanted
    with pytest.raises(ValueError, match="column `raw` is BINARY, and cannot cut a table"):
        Query(tmp_path / "raw", StructType().add("raw", BinaryType()), partitionBy="raw")


def test_numbers_that_cut_a_table_are_told_apart_as_their_texts_are(tmp_path: Path) -> None:
    """Python takes -0.0 for 0.0, and no NaN for another one: each would have a file of its own."""
    numbers = [0.0, -0.0, float("nan"), float("-inf"), float("nan"), 5e-324, None]
    schema = StructType().add("id", LongType()).add("price", DoubleType())
    query = Query(tmp_path, schema, partitionBy="price")
    query.write(0, [*enumerate(numbers), *enumerate(numbers, 10)])
    wanted = sorted([*enumerate(map(repr, numbers)), *enumerate(map(repr, numbers), 10)])
    assert sorted((row["id"], repr(row["price"])) for row in batch(tmp_path)) == wanted
    assert sorted((each, repr(price)) for each, price in content(tmp_path)) == wanted
    assert len(DeltaTable(tmp_path).file_uris()) == len(set(map(repr, numbers)))


@pytest.mark.parametrize("later", [0.0, -0.0])
def test_a_key_of_minus_zero_is_that_of_zero(tmp_path: Path, later: float) -> None:
    """As in Spark: two rows would be one there, and both would be replaced by the next one."""
    schema = StructType().add("key", DoubleType()).add("v", LongType())
    query = Query(tmp_path, schema, mode="upsert", key="key")
    with pytest.raises(ValueError, match=r"several rows with the same key \(key\)"):
        query.write(0, [(0.0, 1), (-0.0, 2)])
    query.write(0, [(0.0, 1), (float("nan"), 1)])
    query.write(1, [(later, 2), (float("nan"), 2)])
    assert [(key == 0, v) for key, v in content(tmp_path)] == [(True, 2), (False, 2)]


def test_names_with_quotes_in_an_upsert(tmp_path: Path) -> None:
    schema = StructType().add('a "key"', LongType()).add('it\'s "v"', LongType())
    query = Query(tmp_path, schema, mode="upsert", key='a "key"')
    query.write(0, [(1, 1), (2, 2)])
    query.write(1, [(2, 3)])
    assert content(tmp_path) == [(1, 1), (2, 3)]


def test_an_upsert_leaves_columns_that_its_rows_lack_as_they_are(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1, item=["a"], price=[10]))
    query = Query(tmp_path, mode="upsert", key="id")
    query.write(0, [(1, "b"), (2, "c")])
    assert content(tmp_path) == [(1, "b", 10), (2, "c", None)]


def rewritten(folder: Path, with_file: pa.Table, **given: Any) -> None:
    """The table's only file is another one from now on, as another tool would have written it."""
    file, entry = DeltaTable(folder).file_uris()[0], entry_of(folder, 0)
    size = Path(file).stat().st_size
    pq.write_table(with_file, file, **given)
    now = f'"size":{Path(file).stat().st_size}'
    entry.write_text(entry.read_text().replace(f'"size":{size}', now))


def test_files_of_other_tools(tmp_path: Path) -> None:
    """Spark writes moments as INT96; some tools leave the columns that cut a table in its files."""
    last = datetime(9999, 12, 31, tzinfo=UTC)
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("part", pa.timestamp("us", "UTC"))])
    known = pa.table({"at": [last], "part": [last]}, schema)
    write_deltalake(tmp_path, known, partition_by=["part"])
    as_written = known.set_column(0, "at", known["at"].cast(pa.timestamp("us")))
    rewritten(tmp_path, as_written, use_deprecated_int96_timestamps=True)
    for given in ({}, {"startingVersion": "0"}):
        source = DeltaDataSource({"path": str(tmp_path), **given})
        reader = source.streamReader(source.schema())
        start = reader.initialOffset()
        parts = reader.partitions(start, reader.latestOffset(start, ALL))
        rows = [row for part in parts for each in reader.read(part) for row in each.to_pylist()]
        assert rows == [{"at": last, "part": last}]


def test_a_table_with_more_than_the_client_knows_is_refused_at_once(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1))
    text = entry_of(tmp_path, 0).read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    for action in actions:
        if "protocol" in action:
            features = {"readerFeatures": [], "writerFeatures": ["rowTracking"]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    entry_of(tmp_path, 0).write_text("\n".join(map(json.dumps, actions)))
    query = Query(tmp_path, StructType().add("id", LongType()), waitSeconds=10**6)
    with pytest.raises(CommitFailedError, match=r"Unsupported .*RowTracking"):
        query.write(0, [(2,)])


def next_rows(run: Run, end: Any) -> list[Any]:
    parts = run.reader.partitions(run.offset, end)
    return [row for part in parts for each in run.reader.read(part) for row in each.to_pylist()]


def test_what_is_gone_or_another_before_it_is_read_ends_a_running_query(tmp_path: Path) -> None:
    for name in ("vacuumed", "cut", "again"):
        write_deltalake(tmp_path / name, table(1))
    vacuumed, cut, again = (stream(tmp_path / name) for name in ("vacuumed", "cut", "again"))
    assert vacuumed.rows() == cut.rows() == again.rows() == [1]
    for run, name in ((vacuumed, "vacuumed"), (cut, "cut")):
        write_deltalake(tmp_path / name, table(2), mode="append")
        end = run.latest()
        if name == "vacuumed":
            DeltaTable(tmp_path / name).optimize.compact()
            DeltaTable(tmp_path / name).vacuum(0, False, False)
        else:
            entry = entry_of(tmp_path / name, 1)
            entry.write_text(entry.read_text()[:-40])
        with pytest.raises(
            Exception, match=r"not found|line 1 column|Unterminated|Expecting|Truncated"
        ):
            next_rows(run, end)
    (tmp_path / "again").rename(tmp_path / "old")
    for number in range(5):
        write_deltalake(tmp_path / "again", table(number), mode="append")
    with pytest.raises(Exception, match="was dropped and made again"):
        again.rows()
