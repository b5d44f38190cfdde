"""What once was lost, changed or taken for something else, and no error told."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tests.properties import IN_FOLDERS
from tests.unit.objects.stores import rows, store_at, stream, values
from tests.unit.objects.test_sink import Query
from tutorial_pkg.connectors.objects import ObjectsDataSource
from tutorial_pkg.connectors.objects.manifests import Content
from tutorial_pkg.connectors.store import Found, Store
from tutorial_pkg.connectors.store_options import address

ROW = StructType().add("id", LongType()).add("item", StringType())
TEXTS = [*IN_FOLDERS, ""]


def test_compressed_objects_are_unpacked_or_refused_and_never_taken_for_text(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.GZ").write_bytes(gzip.compress(b"one\n"))
    (tmp_path / "b.txt.bz2").write_bytes(bz2.compress(b"two\nthree"))
    assert values(tmp_path) == ["one", "two", "three"]
    (tmp_path / "c.txt.zst").write_bytes(pa.compress(b"four\n", codec="zstd", asbytes=True))
    with pytest.raises(Exception, match=r"`c\.txt\.zst` is not lines as wanted: it is compressed"):
        values(tmp_path)
    (tmp_path / "c.txt.zst").rename(tmp_path / "c.tgz")
    with pytest.raises(Exception, match="it is compressed as tgz, of which only gz and bz2"):
        values(tmp_path)


def put(folder: Path, form: str, name: str) -> None:
    if form == "csv":
        (folder / "a").write_text(f"\n{name},item\n7,x\n")
    elif form == "parquet":
        pq.write_table(pa.table({name: [7], "item": ["x"]}), folder / "a")
    else:
        fields = [{"name": name, "type": "long"}, {"name": "item", "type": "string"}]
        with (folder / "a").open("wb") as file:
            schema = {"type": "record", "name": "row", "fields": fields}
            fastavro.writer(file, schema, [{name: 7, "item": "x"}])


@pytest.mark.parametrize("form", ["csv", "parquet", "avro"])
def test_a_name_in_other_letters_is_no_null(tmp_path: Path, form: str) -> None:
    put(tmp_path, form, "ID")
    with pytest.raises(Exception, match=r"column `id` is wanted, and there is \['ID'\]"):
        rows(tmp_path, ROW, format=form)
    put(tmp_path, form, "id")
    assert rows(tmp_path, ROW, format=form) == [{"id": 7, "item": "x"}]


def test_headers_of_csv(tmp_path: Path) -> None:
    for content in (
        b"\xef\xbb\xbfid,item\r\n7,x\r\n",
        b'"id",other,"item"\n7,"a\nb",x',
        b'"id","two\nlines",item\n7,,x\n',
    ):
        (tmp_path / "a").write_bytes(content)
        assert rows(tmp_path, ROW, format="csv") == [{"id": 7, "item": "x"}]
    for content in (b"id,item\n", b"id,item", b"\n\n"):
        (tmp_path / "a").write_bytes(content)
        assert rows(tmp_path, ROW, format="csv") == []
    for content in (b"id,item,item\n7,x,y\n", b"id, item\n7,x\n"):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(Exception, match="column `item` is wanted, and there is"):
            rows(tmp_path, ROW, format="csv")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"id,item\r7,x\r", "its lines end in CR alone; they must end in LF, or CR and LF"),
        (b"id;item\n7;x\n", r"its header has \['id;item'\], and none of the columns \['id', "),
    ],
)
def test_csv_of_another_kind_has_neither_no_rows_nor_nulls(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(Exception, match=f"`a` is not csv as wanted: {reason}"):
        rows(tmp_path, ROW, format="csv")


@pytest.mark.parametrize("before", ["", " ", '{"id":1}\n', '{"id":1}\n '])
def test_a_line_of_json_that_is_null_is_told(tmp_path: Path, before: str) -> None:
    """Where it is the first, Arrow dies of it, and the worker with it."""
    (tmp_path / "a").write_text(f"{before}null\n")
    with pytest.raises(Exception, match="`a` is not jsonl as wanted: a line is `null`, and no obj"):
        rows(tmp_path, ROW, format="jsonl")


def test_text_of_json_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"id":1,"item":"\xe4"}\n')
    with pytest.raises(Exception, match="`a` is not jsonl as wanted: 'utf-8' codec can't decode"):
        rows(tmp_path, ROW, format="jsonl")


MOMENT = pa.scalar(1, pa.timestamp("us"))
NUMBERS_BY_TEXT = pa.map_(pa.string(), pa.float64())
VIEW = pa.large_list_view(pa.int64())


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (0.1, FloatType(), "column `v` is double, of which float is only a part; read it as it is"),
        (MOMENT, DateType(), "column `v` is .* only a part"),
        (1.239, DecimalType(9, 2), "column `v` is double, .* only a part"),
        (Decimal("0.1"), DoubleType(), "column `v` is decimal.* only a part"),
        ([0.1], ArrayType(FloatType()), r"column `v\[\]` is double, .* only a part"),
        (
            pa.scalar([0.1], pa.large_list(pa.float64())),
            ArrayType(FloatType()),
            r"`v\[\]` is doubl",
        ),
        (pa.scalar([0.1], pa.list_(pa.float64(), 1)), ArrayType(FloatType()), r"`v\[\]` is double"),
        (pa.scalar([1], VIEW), ArrayType(LongType()), "`v` is large_list_view.*, and Arrow lo"),
        (
            pa.scalar({"a": 0.1}, NUMBERS_BY_TEXT),
            MapType(StringType(), FloatType()),
            r"`v\[\]` is double, .* only a part",
        ),
        ("007", LongType(), "column `v` is string, and int64 is wanted, which is something else"),
        ("1", BooleanType(), "column `v` is string, .* something else"),
        (True, LongType(), "column `v` is bool, .* something else"),
        (date(2026, 11, 23), TimestampType(), "column `v` is date32.* something else"),
        (5, BooleanType(), "column `v` is int64, and bool is wanted, which is something else"),
        (5, TimestampNTZType(), "column `v` is int64, and timestamp.* something else"),
        (MOMENT, LongType(), "column `v` is timestamp.* something else"),
        ({"ID": 1}, StructType().add("id", LongType()), r"`id` is wanted, and there is \['ID'\]"),
    ],
)
def test_what_would_become_another_value_is_refused(
    tmp_path: Path, value: Any, kind: Any, reason: str
) -> None:
    pq.write_table(pa.table({"v": [value]}), tmp_path / "a")
    with pytest.raises(Exception, match=reason):
        rows(tmp_path, StructType().add("v", kind), format="parquet")


def test_moments_as_spark_writes_them(tmp_path: Path) -> None:
    """In INT96: as Arrow's nanoseconds 9999-12-31 was in 1816, and no moment either."""
    moments = [datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]
    found = pa.table({"at": pa.array(moments).cast(pa.timestamp("us"))})
    pq.write_table(found, tmp_path / "a", use_deprecated_int96_timestamps=True)
    schema = StructType().add("at", TimestampType())
    source = ObjectsDataSource({"path": str(tmp_path), "format": "parquet"})
    assert source.schema() == schema
    assert rows(tmp_path, schema, format="parquet") == [{"at": each} for each in moments]


def test_avro_s_numbers_are_not_rounded(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "v", "type": "double"}]}
    with (tmp_path / "a").open("wb") as file:
        fastavro.writer(file, schema, [{"v": 0.1}])
    with pytest.raises(Exception, match="column `v` is double, of which float is only a part"):
        rows(tmp_path, StructType().add("v", FloatType()), format="avro")


def test_a_time_without_a_zone_is_no_moment_in_avro(tmp_path: Path) -> None:
    kind = {"type": "long", "logicalType": "local-timestamp-micros"}
    schema = {"type": "record", "name": "row", "fields": [{"name": "at", "type": kind}]}
    with (tmp_path / "a").open("wb") as file:
        fastavro.writer(file, schema, [{"at": datetime(2026, 11, 23)}])
    naive = StructType().add("at", TimestampNTZType())
    assert rows(tmp_path, naive, format="avro") == [{"at": datetime(2026, 11, 23)}]
    for more in ({}, {"avroSchema": json.dumps(schema)}):
        with pytest.raises(
            Exception, match=r"`at` is timestamp\[us\], and timestamp\[us, tz=UTC\]"
        ):
            rows(tmp_path, StructType().add("at", TimestampType()), format="avro", **more)


@pytest.mark.parametrize("url", ["s3://lake/*.txt", "s3://lake/a#b", "gs://b/c?d", "az://b/c%20d"])
def test_addresses_that_clients_take_for_others_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        address(url)


def test_folders_are_named_as_spark_names_them(tmp_path: Path) -> None:
    """Spark takes each `%C3` for a letter of its own, so only what is ASCII is escaped."""
    query = Query(tmp_path, ROW, format="parquet", partitionBy="item")
    query.write(0, [*enumerate(TEXTS)])
    found = {row["id"]: row["item"] for row in rows(tmp_path, ROW, format="parquet")}
    assert found == dict(enumerate(TEXTS))
    folders = {folder.name for folder in tmp_path.glob("item=*")}
    assert folders >= {"item=ä", "item=日本", "item=%25", "item=a%2Fb", "item=a%3Db", "item= "}


def test_a_sink_that_begins_while_a_reader_looks_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader saw no mark, then an upload that did not count."""
    listed = Store.listed

    def listed_later(self: Store, *asked: Any, **given: Any) -> list[Found]:
        monkeypatch.setattr(Store, "listed", listed)
        Query(tmp_path).upload(0, 0, ["of a batch that has not come to its end"])
        return listed(self, *asked, **given)

    content = Content(store_at(tmp_path))
    monkeypatch.setattr(Store, "listed", listed_later)
    assert list(content.news()) == []
    assert stream(tmp_path, format="jsonl").rows() == []


def test_a_damaged_byte_is_told(tmp_path: Path) -> None:
    """Some of them changed values: Parquet has checksums for those who ask for them."""
    Query(tmp_path, ROW, format="parquet").write(0, [(n, f"item {n}") for n in range(1_013)])
    [file] = tmp_path.glob("part-*")
    whole, footer = file.read_bytes(), 1_500
    wanted = rows(tmp_path, ROW, format="parquet")
    (tmp_path / "damaged").mkdir()
    for place in range(300, len(whole) - footer, 97):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        (tmp_path / "damaged" / "a").write_bytes(damaged)
        try:
            got = rows(tmp_path / "damaged", ROW, format="parquet")
        except Exception:
            continue
        assert got == wanted, place


@pytest.mark.parametrize("form", ["csv", "parquet", "avro"])
def test_empty_objects_have_no_rows(tmp_path: Path, form: str) -> None:
    """Amazon's console makes one for each folder."""
    put(tmp_path, form, "id")
    (tmp_path / "0").write_bytes(b"")
    assert rows(tmp_path, ROW, format=form) == [{"id": 7, "item": "x"}]
    if form != "csv":
        source = ObjectsDataSource({"path": str(tmp_path), "format": form})
        assert source.schema() == ROW


def test_an_empty_folder_is_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor may everybody ask what is above it."""
    assert values(f"file://{tmp_path}") == []

    def refused(self: Store, key: str) -> bool:
        if self.url != f"file://{tmp_path}":
            raise PermissionError
        return False

    monkeypatch.setattr(Store, "exists", refused)
    assert values(f"file://{tmp_path}") == []
