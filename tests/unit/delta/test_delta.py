"""Delta tables as a source and a sink, without Spark, compared with delta-rs' own functions."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from tests.stream_runs import Run
from tests.unit.objects import folders
from tests.values import IN_FOLDERS
from tutorial_pkg.builder import BatchContext, RowPacker, TargetContext
from tutorial_pkg.builder.functions import Retries
from tutorial_pkg.connectors.delta import DeltaDataSource, sink
from tutorial_pkg.connectors.delta.options import WRITE
from tutorial_pkg.core.options import Options

ID = StructType().add("id", LongType())
NUMBERS = StructType().add("id", LongType()).add("item", StringType())
FEED = {"delta.enableChangeDataFeed": "true"}


class Query(folders.Query):
    task = sink.TableUpload

    def __init__(self, folder: Path | str, schema: StructType = NUMBERS, **options: object) -> None:
        texts = {name: str(value) for name, value in {"path": folder, **options}.items()}
        self.options = Options("delta_py", WRITE).parse(texts)
        self._packer = RowPacker(schema)
        sink.check(TargetContext(schema, self.options))

    def commit(self, batch: int, handles: list[Any]) -> None:
        context = BatchContext(folders.QUERY, batch, self.options)
        retries = Retries((), self.options.waitSeconds, transient=sink._is_conflict)
        retries.patiently(lambda: sink.publish(context, handles))


def content(folder: Path) -> list[tuple[Any, ...]]:
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def stream(folder: Path, offset: Any = None, **options: object) -> Run:
    texts = {name: str(value) for name, value in options.items()}
    schema: Any = DeltaDataSource({"path": str(folder), **texts}).schema()
    run = Run(DeltaDataSource, folder, schema, texts)
    run.offset = offset or run.offset
    return run


def next_rows(run: Run) -> list[Any]:
    parts = run.reader.partitions(run.offset, run.latest())
    return [row for part in parts for each in run.reader.read(part) for row in each.to_pylist()]


def batch(folder: Path, **options: object) -> list[dict[str, Any]]:
    source = DeltaDataSource({"path": str(folder), **{k: str(v) for k, v in options.items()}})
    reader: Any = source.reader(source.schema())  # type: ignore[arg-type]
    batches = [each for part in reader.partitions() for each in reader.read(part)]
    return [row for each in batches for row in each.to_pylist()]


def table(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **more})


def entry_of(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


# ---- Writing -------------------------------------------------------------------------------------


def test_batch_counts_once(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.write(0, [(1, "a")])
    query.write(1, [(2, "b")], [(3, "c")])
    query.write(1, [(2, "b")], [(3, "c")])
    assert content(tmp_path) == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(ValueError, match=r"up to 1, and batch 0 .* set back"):
        query.write(0, [(1, "a")])


@pytest.mark.parametrize(
    ("mode", "rival"),
    [
        ({}, "the same batch"),
        ({}, "another writer"),
        ({"mode": "upsert", "key": "id"}, "another writer"),
    ],
)
def test_commit_during_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: dict[str, str], rival: str
) -> None:
    """It comes after the table was opened, and before our commit."""
    one, other = Query(tmp_path, **mode), Query(tmp_path, **mode)
    handles = one.upload(0, 0, [(1, "a")]), other.upload(0, 0, [(1, "a")])
    open_table = sink.open_table

    def open_before(*arguments: Any) -> DeltaTable:
        opened = open_table(*arguments)
        monkeypatch.setattr(sink, "open_table", open_table)
        if rival == "another writer":
            write_deltalake(tmp_path, table(7, item=["other"]), mode="append")
        else:
            other.commit(0, [handles[1]])
        return opened

    monkeypatch.setattr(sink, "open_table", open_before)
    one.commit(0, [handles[0]])
    others = [(7, "other")] if rival == "another writer" else []
    assert content(tmp_path) == [(1, "a"), *others]


def test_upsert_replaces_rows_by_key(tmp_path: Path) -> None:
    query = Query(tmp_path, mode="upsert", key="id")
    query.upload(0, 0, [(9, "of a killed task")])
    query.write(0, [(1, "a"), (2, "b")], [(3, "c")])
    query.write(1, [(2, "B")], [(4, None)])
    query.write(1, [(2, "B")], [(4, None)])
    assert content(tmp_path) == [(1, "a"), (2, "B"), (3, "c"), (4, None)]
    assert not [file for file in (tmp_path / "_staged").rglob("*") if file.is_file()]
    with pytest.raises(ValueError, match=r"same key \(id\)"):
        query.write(2, [(1, "x")], [(1, "y")])
    with pytest.raises(ValueError, match=r"key \(id\) must not be null"):
        query.write(2, [(None, "x")])


def test_upsert_keeps_columns_that_its_rows_lack(tmp_path: Path) -> None:
    """The name of a key may have quotes."""
    rows = table(1, item=["a"], price=[10]).rename_columns(['a "key"', "it's", "price"])
    write_deltalake(tmp_path, rows)
    schema = StructType().add('a "key"', LongType()).add("it's", StringType())
    Query(tmp_path, schema, mode="upsert", key='a "key"').write(0, [(1, "b"), (2, "c")])
    assert content(tmp_path) == [(1, "b", 10), (2, "c", None)]


def test_schema_is_enforced_or_evolved(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.write(0, [(1, "a")])
    more = StructType([*NUMBERS]).add("price", LongType())
    with pytest.raises(ValueError, match=r"no column `price`.*`evolve`"):
        Query(tmp_path, more)
    with pytest.raises(ValueError, match="column `id` is string, and in the table bigint"):
        Query(tmp_path, StructType().add("id", StringType()))
    Query(tmp_path, more, evolve="true").write(1, [(2, "b", 30)])
    Query(tmp_path, ID).write(2, [(3,)])
    rows = DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "a", None), (2, "b", 30), (3, None, None)]
    write_deltalake(tmp_path, table(9), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ValueError, match="no column `item`"):
        query.write(3, [(4, "d")])


def test_options_of_an_upsert(tmp_path: Path) -> None:
    def context(overwrite: bool, streaming: bool, **options: str) -> TargetContext:
        values = Options("delta_py", WRITE).parse({"path": str(tmp_path), **options})
        return TargetContext(NUMBERS, values, streaming, overwrite)

    sink.check(context(True, True, mode="upsert", key="id"))
    for streaming, options in ((True, {}), (False, {}), (False, {"mode": "upsert", "key": "id"})):
        with pytest.raises(ValueError, match="output mode `complete`"):
            sink.check(context(True, streaming, **options))
    with pytest.raises(ValueError, match="option `key`"):
        Query(tmp_path, mode="upsert")
    with pytest.raises(ValueError, match=r"no column \['x'\]"):
        Query(tmp_path, mode="upsert", key="x")


def test_rules_of_a_table_are_kept_or_refused(tmp_path: Path) -> None:
    item = pa.field("item", pa.string(), nullable=False)
    DeltaTable.create(tmp_path / "a", pa.schema([("id", pa.int64()), item]), partition_by=["item"])
    for value in (None, ""):
        with pytest.raises(ValueError, match="column `item` of the table must not be null"):
            Query(tmp_path / "a").write(0, [(1, value)])
    Query(tmp_path / "a").write(0, [(1, "a")])
    with pytest.raises(ValueError, match="all columns partition the table"):
        Query(tmp_path / "a", StructType().add("item", StringType()))
    write_deltalake(tmp_path / "b", table(1))
    DeltaTable(tmp_path / "b").alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ValueError, match="rules for its rows"):
        Query(tmp_path / "b", ID)
    write_deltalake(tmp_path / "c", table(1), configuration={"delta.appendOnly": "true"})
    with pytest.raises(CommitFailedError, match="append-only"):
        Query(tmp_path / "c", ID, mode="upsert", key="id", waitSeconds=10**6).write(0, [(1,)])


# ---- Reading -------------------------------------------------------------------------------------


def test_stream_reads_the_table_then_appended_rows(tmp_path: Path) -> None:
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


def test_offset_of_version_0_2_stays_readable(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path, table(number), mode="append")
    identity = DeltaTable(tmp_path).metadata().id
    old: dict[str, Any] = {f"{identity}/{task}/2": -1 for task in range(2)}
    assert stream(tmp_path, {"": json.dumps(old), **dict.fromkeys(old, 1)}).rows() == [2, 1]


def test_deleted_rows_end_a_stream_or_are_skipped(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1, 2))
    refusing, skipping = stream(tmp_path), stream(tmp_path, rewritten="skip")
    assert sorted(refusing.rows()) == sorted(skipping.rows()) == [1, 2]
    DeltaTable(tmp_path).delete("id = 1")
    write_deltalake(tmp_path, table(3), mode="append")
    with pytest.raises(Exception, match=r"version 1 .*`changes`.*`rewritten=skip`"):
        refusing.rows()
    assert skipping.rows() == [3]


def test_changes_come_from_the_change_feed(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "without", table(1, 2))
    with pytest.raises(Exception, match=r"set `delta\.enableChangeDataFeed`"):
        stream(tmp_path / "without", changes="true")
    write_deltalake(tmp_path, table(1, 2), configuration=FEED)
    run = stream(tmp_path, changes="true")
    assert sorted(run.rows()) == [1, 2]
    DeltaTable(tmp_path).delete("id = 1")
    Query(tmp_path, ID).write(0, [(3,)])
    rows = next_rows(run)
    changes = Counter((row["_change_type"], row["id"], row["_commit_version"]) for row in rows)
    assert changes == Counter([("delete", 1, 1), ("insert", 3, 2)])
    assert all(row["_commit_timestamp"].year > 2000 for row in rows)


def test_replaced_or_older_table_is_an_error(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "a", table(1))
    write_deltalake(tmp_path / "a", table(2), mode="append")
    run = stream(tmp_path / "a")
    run.rows()
    entry_of(tmp_path / "a", 1).unlink()
    with pytest.raises(Exception, match="set back to an older copy"):
        run.rows()
    (tmp_path / "a").rename(tmp_path / "old")
    for number in range(5):
        write_deltalake(tmp_path / "a", table(number), mode="append")
    for again in (run, stream(tmp_path / "a", run.offset)):
        with pytest.raises(Exception, match="re-created: its identity is"):
            again.rows()


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda folder: entry_of(folder, 1).unlink(), "version 1 is no longer in the table's log"),
        (
            lambda folder: os.truncate(
                entry_of(folder, 1), entry_of(folder, 1).stat().st_size - 40
            ),
            f"{1:020}.json is empty or damaged",
        ),
        (lambda folder: [file.unlink() for file in folder.glob("*.parquet")], "not found"),
    ],
)
def test_lost_or_damaged_version_is_an_error(tmp_path: Path, damage: Any, error: str) -> None:
    write_deltalake(tmp_path, table(1))
    run = stream(tmp_path)
    run.rows()
    for number in range(2):
        write_deltalake(tmp_path, table(number), mode="append")
    DeltaTable(tmp_path).create_checkpoint() if "longer" in error else None
    damage(tmp_path)
    with pytest.raises(Exception, match=error):
        run.rows()


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": "id"}])
def test_commit_and_its_files_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: dict[str, str]
) -> None:
    """Also by a driver that finds its batch committed, and the checkpoint of every ten versions."""
    synced, fsync = set[str](), os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: synced.add(str(Path(f"/proc/self/fd/{handle}").readlink())) or fsync(handle),
    )
    query = Query(tmp_path, **mode)
    assert str(entry_of(tmp_path, 0)) in synced
    handle = query.upload(0, 0, [(1, "a")])
    for _ in range(2):
        query.commit(0, [handle])
        opened = DeltaTable(tmp_path)
        commit = entry_of(tmp_path, opened.version())
        [file] = opened.file_uris()
        assert synced >= {str(commit), str(commit.parent), file.removeprefix("file://")}
        synced.clear()
    for number in range(1, 10):
        query.write(number, [(number, "a")])
    [checkpoint] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    assert synced >= {str(checkpoint), str(checkpoint.with_name("_last_checkpoint"))}


def test_full_disk_is_an_error_at_once(tmp_path: Path) -> None:
    """A limit of this process on the size of files stands in for the disk's end."""
    resource = pytest.importorskip("resource")
    query = Query(tmp_path)
    handle = query.upload(0, 0, [(1, "a")])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            query.upload(1, 0, [(2, "b")])
        with pytest.raises((OSError, DeltaError), match="File too large"):
            query.commit(0, [handle])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    query.commit(0, [handle])
    assert content(tmp_path) == [(1, "a")]


def test_new_column_needs_a_new_dataframe(tmp_path: Path) -> None:
    write_deltalake(tmp_path, table(1))
    run = stream(tmp_path)
    assert run.rows() == [1]
    done = run.offset
    write_deltalake(tmp_path, table(2, price=[7]), mode="append", schema_mode="merge")
    with pytest.raises(Exception, match=r"does not know \(price\)"):
        run.rows()
    assert next_rows(stream(tmp_path, done)) == [{"id": 2, "price": 7}]


def test_tables_that_are_not_supported(tmp_path: Path) -> None:
    """With column mapping, values would be null. A feature of writers is refused by delta-rs."""
    write_deltalake(tmp_path, pa.table({"col-1": [1]}))
    actions = [json.loads(line) for line in entry_of(tmp_path, 0).read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            names = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
            schema["fields"][0] |= {"name": "id", "metadata": names}
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    entry_of(tmp_path, 0).write_text("\n".join(map(json.dumps, actions)))
    for work in (
        lambda: batch(tmp_path),
        lambda: stream(tmp_path, startingVersion=0),
        lambda: Query(tmp_path, ID),
    ):
        with pytest.raises(Exception, match=r"delta\.columnMapping\.mode=name"):
            work()
    write_deltalake(tmp_path / "other", pa.table({"id": [1]}))
    with pytest.raises(ValueError, match=f"no Delta table at {tmp_path}/none"):
        stream(tmp_path / "none")
    with pytest.raises(ValueError, match="in version 9"):
        batch(tmp_path, version=9)
    with pytest.raises(Exception, match="`startingVersion`: the next version is 1, got 9"):
        stream(tmp_path / "other", startingVersion=9)


# ---- Values --------------------------------------------------------------------------------------


def test_values_and_an_earlier_version(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    kinds = {
        "i": (pa.int32(), 1),
        "s": (pa.string(), "a/b"),
        "t": (pa.timestamp("us", "UTC"), moment),
        "n": (pa.timestamp("us"), moment.replace(tzinfo=None)),
        "d": (pa.date32(), date(2026, 1, 2)),
        "e": (pa.decimal128(10, 2), Decimal("1.20")),
        "b": (pa.bool_(), True),
        "bin": (pa.binary(), b"\xff"),
        "l": (pa.list_(pa.int64()), [1, None]),
        "st": (pa.struct([("x", pa.int64())]), {"x": 2}),
    }
    arrow = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    full = {name: value for name, (_, value) in kinds.items()}
    rows = [full, dict.fromkeys(full)]
    schema = from_arrow_schema(arrow, prefer_timestamp_ntz=True)
    query = Query(tmp_path, schema, partitionBy="s, d, b, e, i")
    query.write(0, rows)
    query.write(1, [full])
    assert sorted(batch(tmp_path, version=1), key=repr) == sorted(rows, key=repr)
    assert len(batch(tmp_path)) == 3
    other = DeltaTable(tmp_path, version=1).to_pyarrow_table().to_pylist()
    assert sorted(other, key=repr) == sorted(rows, key=repr)


def test_partition_values_as_in_other_tools(tmp_path: Path) -> None:
    folder = tmp_path / "a b ä"
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    DeltaTable.create(folder, schema, partition_by=["item"], configuration=FEED)
    Query(folder).write(0, [*enumerate(IN_FOLDERS), (99, "")])
    expected = {**dict(enumerate(IN_FOLDERS)), 99: None}  # Delta has no empty text there
    ours = {row["id"]: row["item"] for row in batch(folder)}
    others = {row["id"]: row["item"] for row in DeltaTable(folder).to_pyarrow_table().to_pylist()}
    assert ours == others == expected
    changes = next_rows(stream(folder, changes="true", startingVersion=0))
    assert {row["id"]: row["item"] for row in changes} == expected
    with pytest.raises(ValueError, match="column `raw` is BINARY"):
        Query(tmp_path / "raw", StructType().add("raw", BinaryType()), partitionBy="raw")
    assert not (tmp_path / "raw").exists()
    Query(folder, ID).write(1, [(100,)])
    assert {"id": 100, "item": None} in batch(folder)
