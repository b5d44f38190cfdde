"""The formats of objects: their values arrive unchanged, or an error names object and column."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from tests.unit.objects.folders import (
    VALUE,
    Query,
    batch_reader,
    options_of,
    rows,
    store_at,
    values,
)
from tutorial_pkg.connectors.objects import ObjectsDataSource, reading
from tutorial_pkg.connectors.objects.reading import _line_chunks
from tutorial_pkg.connectors.objects.tape import Part
from tutorial_pkg.connectors.store import Store
from tutorial_pkg.connectors.store_options import address
from tutorial_pkg.core.worker import CORES

ROW = StructType().add("id", LongType()).add("item", StringType())


def schema_of(path: Path, form: str) -> Any:
    return ObjectsDataSource({"path": str(path), "format": form}).schema()


def write_avro(file: Path, fields: list[Any], row: dict[str, Any], codec: str = "null") -> None:
    schema = {"type": "record", "name": "row", "fields": fields}
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [row], codec)
    file.write_bytes(buffer.getvalue())


def avro_field(name: str, kind: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
    full = {"type": kind, "logicalType": logical, **more} if logical else kind
    return {"name": name, "type": full}


# ---- Lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_every_cut_yields_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    for size in ("CHUNK", "SLICE", "TAIL"):
        monkeypatch.setattr(reading, size, chance.randint(1, 40))
    lines = [b"x" * chance.choice([0, 0, 1, 5, 90]) + b"%d" % line for line in range(31)]
    content = b"\n".join(lines) + chance.choice([b"", b"\n"])
    info = store_at(tmp_path).write("a.txt", content)
    cuts = sorted({0, len(content), *(chance.randint(0, len(content)) for _ in range(9))})
    chunks = (
        chunk
        for start, end in pairwise(cuts)
        for chunk in _line_chunks(store_at(tmp_path), Part(info, start, end))
    )
    assert b"".join(chunks) == b"\n".join(lines) + b"\n"


def test_several_tasks_read_a_large_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number} {'x' * 90}" for number in range(55_021)]
    (tmp_path / "large.txt").write_text("\n".join(lines))
    assert len(batch_reader(tmp_path, parallelism=3).partitions()) == 3
    monkeypatch.setenv(CORES, "5")
    assert len(batch_reader(tmp_path).partitions()) == 5
    assert values(tmp_path, parallelism=3) == lines


def test_lines_of_compressed_and_odd_objects(tmp_path: Path) -> None:
    (tmp_path / "a.txt.GZ").write_bytes(gzip.compress(b"one\n\ntwo"))
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes(b"\r\nthree\r\n\xff")
    (tmp_path / "d.bz2").write_bytes(bz2.compress(b"four"))
    (tmp_path / "e.txt").write_bytes(b"\xef\xbb\xbffive\n\xef\xbb\xbf")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "d.txt").write_text("no")
    expected = ["one", "", "two", "", "three", "\ufffd", "four", "five", "\ufeff"]
    assert values(tmp_path) == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("c.txt.zst", b"", "zst"),
        ("c.tgz", b"", "tgz"),
        ("c.txt", "id,item\n".encode("utf-16"), "UTF-16"),
        ("c.txt", "id,item\n".encode("utf-16-le"), "UTF-16"),
    ],
)
def test_other_encodings_are_refused(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content or b"x")
    with pytest.raises(Exception, match=f"`{name}` .*{reason}"):
        values(tmp_path)
    if content:
        with pytest.raises(Exception, match=f"`{name}` .*{reason}"):
            rows(tmp_path, ROW, format="csv")


WILD = ["s3://lake/*.txt", "s3://lake/a#b", "gs://b/c?d", "az://b/c%20d"]


@pytest.mark.parametrize("url", [*WILD, "file:/data", "s3:/lake/a", "hdfs:/a"])
def test_address_that_clients_misread_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        address(url)


def test_settings_of_http_reach_the_client() -> None:
    options = options_of("s3://b", **{"store.proxy_url": "http://localhost:1"})
    assert "proxy_url" in Store(options, "s3://b").client.client_options


# ---- JSON lines and CSV --------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", b" ", b'{"id":1}\n', b'{"id":1}\n '])
def test_null_line_of_json_is_an_error(tmp_path: Path, before: bytes) -> None:
    """As the first line, it would make Arrow crash."""
    (tmp_path / "a").write_bytes(before + b"null\n")
    with pytest.raises(Exception, match=r"`a` .*a line is `null`"):
        rows(tmp_path, ROW, format="jsonl")


def test_json_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id":1}\n{"id":1,"item":"\xe4"}')
    with pytest.raises(Exception, match=r"ValueError: .*`a\.jsonl`"):
        rows(tmp_path, ROW, format="jsonl")


def test_nan_is_not_written_as_json(tmp_path: Path) -> None:
    schema = StructType().add("a", StringType()).add("x", ArrayType(DoubleType()))
    query = Query(tmp_path, schema)
    for value in ("nan", "inf", "-inf"):
        with pytest.raises(ValueError, match="column `x` has NaN or Infinity"):
            query.upload(0, 0, [("nan", [0.5]), ("a", [1.0, float(value)])])


def test_headers_of_csv(tmp_path: Path) -> None:
    for content in (
        b"\xef\xbb\xbfid,item\r\n7,x\r\n",
        b'"id",other,"item"\n7,"a\nb",x',
        b'\n"id","two\nlines",item\n7,,x\n',
    ):
        (tmp_path / "a").write_bytes(content)
        assert rows(tmp_path, ROW, format="csv") == [{"id": 7, "item": "x"}]
    for content in (b"id,item\n", b"id,item", b"\n\n", b""):
        (tmp_path / "a").write_bytes(content)
        assert rows(tmp_path, ROW, format="csv") == []
    for content in (
        b"id,item,item\n7,x,y\n",
        b"id, item\n7,x\n",
        b"id,item\r7,x\r",
        b"id;item\n7;x\n",
    ):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(Exception, match=r"ValueError: .*`a`"):
            rows(tmp_path, ROW, format="csv")
    (tmp_path / "a").write_text("id\titem\n7\tx\n")
    assert rows(tmp_path, ROW, format="csv", delimiter="\t") == [{"id": 7, "item": "x"}]
    with pytest.raises(ValueError, match="`delimiter` must be one ASCII character"):
        batch_reader(tmp_path, ROW, format="csv", delimiter="||")


# ---- Parquet and Avro ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_name_in_different_case_is_an_error(tmp_path: Path, form: str) -> None:
    def put(name: str) -> None:
        if form == "parquet":
            pq.write_table(pa.table({name: [7], "item": ["x"]}), tmp_path / "a")
        else:
            fields = [avro_field(name, "long"), avro_field("item", "string")]
            write_avro(tmp_path / "a", fields, {name: 7, "item": "x"})

    put("ID")
    with pytest.raises(Exception, match=r"`a` .*`id`, got \['ID'\]"):
        rows(tmp_path, ROW, format=form)
    put("id")
    (tmp_path / "0").write_bytes(b"")  # Amazon's console makes one for each folder
    assert rows(tmp_path, ROW, format=form) == [{"id": 7, "item": "x"}]
    assert schema_of(tmp_path, form) == ROW


def test_avro_schema_of_the_query(tmp_path: Path) -> None:
    write_avro(tmp_path / "a", [avro_field("old", "long")], {"old": 7})
    fields = [
        {"name": "id", "type": "long", "aliases": ["old"]},
        {"name": "item", "type": "string", "default": "x"},
    ]
    schema = json.dumps({"type": "record", "name": "row", "fields": fields})
    assert rows(tmp_path, ROW, format="avro", avroSchema=schema) == [{"id": 7, "item": "x"}]
    for wrong in ("x", '"strin"', '{"a": 1}'):
        with pytest.raises(ValueError, match="option `avroSchema` must be an Avro schema"):
            rows(tmp_path, ROW, format="avro", avroSchema=wrong)


def test_cast_that_changes_values_is_an_error(tmp_path: Path) -> None:
    """`core.arrow_casts` has the rules, and their tests."""
    pq.write_table(pa.table({"v": [{"ID": 1}]}), tmp_path / "a")
    with pytest.raises(Exception, match=r"`a` .*column `v`"):
        rows(tmp_path, StructType().add("v", ROW), format="parquet")


def test_int96_is_a_timestamp_anywhere(tmp_path: Path) -> None:
    """Spark writes timestamps so. As Arrow's nanoseconds, 9999-12-31 would be in 1816."""
    last, naive = datetime(9999, 12, 31, tzinfo=UTC), pa.timestamp("us")
    kinds = {
        "n": pa.int64(),
        "at": naive,
        "list": pa.list_(naive),
        "st": pa.struct([("x", pa.int64()), ("at", naive)]),
        "m": pa.map_(pa.string(), naive),
    }
    row = {"n": 1, "at": last, "list": [last, None], "st": {"x": 2, "at": last}, "m": {"a": last}}
    table = pa.Table.from_pylist([row, {"n": 2}], pa.schema(kinds.items()))
    pq.write_table(table, tmp_path / "a", use_deprecated_int96_timestamps=True)
    schema = schema_of(tmp_path, "parquet")
    assert schema == (
        StructType()
        .add("n", LongType())
        .add("at", TimestampType())
        .add("list", ArrayType(TimestampType()))
        .add("st", StructType().add("x", LongType()).add("at", TimestampType()))
        .add("m", MapType(StringType(), TimestampType()))
    )
    assert rows(tmp_path, schema, format="parquet") == [row, {**dict.fromkeys(row), "n": 2}]


@pytest.mark.parametrize("codec", ["snappy", "deflate", "bzip2", "null"])
def test_codecs_of_avro(tmp_path: Path, codec: str) -> None:
    write_avro(tmp_path / "a", [avro_field("id", "long")], {"id": 7}, codec)
    assert rows(tmp_path, schema_of(tmp_path, "avro"), format="avro") == [{"id": 7}]


def test_empty_folder_has_no_rows(tmp_path: Path) -> None:
    assert values(f"file://{tmp_path}") == []
    assert batch_reader(tmp_path, VALUE).partitions() == []
