"""Batches into a folder: each once, whole or not at all, and nothing is left behind."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql.types import ArrayType, StructType, VariantType

from tests.unit.objects.stores import VALUE, options_of, rows, store_at, stream, values
from tutorial_pkg.builder import BatchContext, RowPacker, SinkContext, TargetContext
from tutorial_pkg.connectors.objects import object_log
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.objects.sink import Upload, Uploaded, check, publish

QUERY = "11112222-3333"


class Query:
    """One driver with its tasks, without Spark."""

    def __init__(self, folder: Path | str, schema: StructType = VALUE, **given: object) -> None:
        self.options = options_of(folder, WRITE, **{"format": "jsonl", **given})
        self._packer = RowPacker(schema)
        check(TargetContext(schema, self.options))

    def upload(self, batch: int, task: int, found: list[Any]) -> Uploaded | None:
        upload = Upload(SinkContext(QUERY, batch, task, self.options))
        if found:
            upload.receive_batch(self._packer.pack(found))
        handle = upload.flush()
        upload.close()
        return handle

    def commit(self, batch: int, handles: list[Uploaded | None]) -> None:
        publish(BatchContext(QUERY, batch, self.options), handles)

    def write(self, batch: int, *tasks: list[Any]) -> None:
        self.commit(batch, [self.upload(batch, task, each) for task, each in enumerate(tasks)])


def seen(folder: Path) -> Counter[str]:
    return Counter(row["value"] for row in rows(folder, VALUE, format="jsonl"))


def data_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("part-*") if file.is_file()]


def test_a_reader_sees_batches_that_are_committed_and_no_others(tmp_path: Path) -> None:
    query = Query(tmp_path)
    handles = [query.upload(0, task, [f"{task}"]) for task in range(3)]
    assert seen(tmp_path) == Counter()
    query.commit(0, [*handles, query.upload(0, 3, [])])
    assert seen(tmp_path) == Counter(["0", "1", "2"])


def test_a_batch_that_comes_again_counts_once_and_its_second_files_go(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.write(0, ["a"], ["b"])
    query.write(0, ["a"], ["b"])
    assert seen(tmp_path) == Counter(["a", "b"])
    assert len(data_files(tmp_path)) == 2


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    query = Query(tmp_path, format="parquet")
    upload = Upload(SinkContext(QUERY, 0, 0, query.options))
    for number in range(30):
        upload.receive_batch(pa.record_batch({"value": [f"{number}"]}))
    query.commit(0, [upload.flush()])
    upload.close()
    [file] = data_files(tmp_path)
    assert pa.parquet.ParquetFile(file).num_row_groups == 1
    assert [row["value"] for row in rows(tmp_path, format="parquet")] == [f"{n}" for n in range(30)]


def test_of_two_drivers_one_wins(tmp_path: Path) -> None:
    one, other = Query(tmp_path), Query(tmp_path)
    first, second = one.upload(0, 0, ["a"]), other.upload(0, 0, ["a"])
    other.commit(0, [second])
    one.commit(0, [first])
    assert seen(tmp_path) == Counter(["a"])
    assert len(data_files(tmp_path)) == 1


def test_what_dead_tasks_have_left_goes_with_a_later_batch(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.upload(0, 0, ["of a killed task"])
    ahead = query.upload(2, 0, ["of a batch that has its time before it"])
    query.write(0, ["a"])
    query.write(1, ["b"])
    assert len(data_files(tmp_path)) == 3
    query.commit(2, [ahead])
    for batch in range(3, 15):
        query.write(batch, ["c"])
    assert sum(seen(tmp_path).values()) == len(data_files(tmp_path)) == 15
    assert not store_at(tmp_path).listed(f"_manifests/{QUERY}/open")


def test_a_checkpoint_that_was_set_back_is_noticed(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.write(0, ["a"])
    with pytest.raises(RuntimeError, match=r"has batch 0 of this query with 1 rows.*set back"):
        query.write(0, ["a", "b"])


def test_many_batches_are_read_by_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path)
    for batch in range(0, 3 * 85, 3):  # not every batch has rows
        query.write(batch, [f"{batch}"])
    assert seen(tmp_path) == Counter(str(batch) for batch in range(0, 3 * 85, 3))
    log = object_log.ObjectLog(store_at(tmp_path), f"_manifests/{QUERY}")
    assert len(log._stretches()) <= 2 * object_log.JOIN_AFTER


def test_a_stream_follows_the_manifests(tmp_path: Path) -> None:
    query = Query(tmp_path)
    run = stream(tmp_path, format="jsonl")
    found = []
    for batch in range(40):
        query.write(batch, [f"{batch}"])
        query.upload(batch + 1, 9, ["uncommitted"])
        if batch % 3 == 0:
            found += run.rows()
    again = stream(tmp_path, run.offset, format="jsonl")
    assert found + again.rows() == [f"{batch}" for batch in range(40)]


def test_a_folder_with_objects_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="has objects that no manifest names"):
        Query(tmp_path)
    assert values(tmp_path) == ["mine"]


NESTED = "l ARRAY<BIGINT>, st STRUCT<x: BIGINT, y: STRING>"
FLAT = (
    "i BIGINT, k INT, s STRING, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, e DECIMAL(10,2), b BOOLEAN, "
    "f DOUBLE"
)
MORE = "bin BINARY, m MAP<STRING, BIGINT>"
FULL: dict[str, Any] = {
    "i": -(2**62),
    "k": 7,
    "s": 'ä"\n,\\',
    "t": datetime(2026, 10, 25, 1, 30, 0, 123456, UTC),
    "n": datetime(1969, 12, 31, 23, 59, 59, 999999),
    "d": date(2026, 2, 28),
    "e": Decimal("-12.30"),
    "b": False,
    "f": 1e-300,
    "l": [1, None, 3],
    "st": {"x": 1, "y": None},
    "bin": b"\x00\xff",
    "m": {"a": 1, "b": None},
}
TEXTS = [{"s": ""}, {"s": "null"}, {"s": None}]


def schema_of(text: str) -> StructType:
    """Without a session, which `StructType.fromDDL` would want."""
    from pyspark.sql.pandas.types import from_arrow_schema

    types = {
        "i": pa.int64(),
        "k": pa.int32(),
        "s": pa.string(),
        "t": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"),
        "d": pa.date32(),
        "e": pa.decimal128(10, 2),
        "b": pa.bool_(),
        "f": pa.float64(),
        "l": pa.list_(pa.int64()),
        "st": pa.struct([("x", pa.int64()), ("y", pa.string())]),
        "bin": pa.binary(),
        "m": pa.map_(pa.string(), pa.int64()),
    }
    names = [name for name in types if f"{name} " in f"{text} "]
    chosen = pa.schema([(name, types[name]) for name in names])
    return from_arrow_schema(chosen, prefer_timestamp_ntz=True)


@pytest.mark.parametrize(
    ("form", "columns"),
    [
        ("csv", FLAT),
        ("jsonl", f"{FLAT}, {NESTED}"),
        ("avro", f"{FLAT}, {NESTED}, {MORE}"),
        ("parquet", f"{FLAT}, {NESTED}, {MORE}"),
    ],
)
def test_values_come_back_as_they_were(tmp_path: Path, form: str, columns: str) -> None:
    schema = schema_of(columns)
    full = {name: value for name, value in FULL.items() if name in schema.names}
    given = [full, *({**dict.fromkeys(schema.names), **each} for each in TEXTS)]
    Query(tmp_path, schema, format=form, partitionBy="b, d").write(0, given)
    found = rows(tmp_path, schema, format=form)
    assert sorted(found, key=repr) == sorted(given, key=repr)
    assert (tmp_path / "b=false" / "d=2026-02-28").is_dir()
    assert (tmp_path / "b=__HIVE_DEFAULT_PARTITION__").is_dir()


@pytest.mark.parametrize(
    ("form", "columns", "told"),
    [
        ("csv", "i, l", "column `l` array<bigint> cannot be in csv"),
        ("jsonl", "i, bin", "column `bin` binary cannot be in jsonl"),
        ("jsonl", "m ", "column `m` map<string,bigint> cannot be in jsonl"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    tmp_path: Path, form: str, columns: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        Query(tmp_path, schema_of(columns.replace(",", " ,")), format=form)


@pytest.mark.parametrize("form", ["jsonl", "csv", "avro", "parquet"])
def test_a_variant_is_not_written_as_its_bytes(tmp_path: Path, form: str) -> None:
    inside = StructType().add("v", ArrayType(VariantType()))
    for kind in (VariantType(), inside):
        with pytest.raises(ValueError, match=f"column `v` .*variant.* cannot be in {form}; use pa"):
            Query(tmp_path, StructType().add("v", kind), format=form)
