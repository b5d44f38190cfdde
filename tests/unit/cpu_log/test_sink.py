"""What the sink checks before a query, which plan it records, and what is read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, LongType, StructType

from tutorial_pkg.connectors.cpu_log import CpuLogDataSource
from tutorial_pkg.connectors.cpu_log.sink import read_plan

NUMBERS = StructType().add("id", LongType())


def refusal(schema: StructType = NUMBERS, overwrite: bool = False, **options: object) -> str:
    source = CpuLogDataSource({name: str(value) for name, value in options.items()})
    with pytest.raises(ValueError, match=r"^format `cpu_log`") as failed:
        source.writer(schema, overwrite)
    return str(failed.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pathh": "/out"}, "unknown option `pathh`; did you mean `path`?"),
        ({}, "option `path` is missing"),
        ({"path": "hdfs://h/out"}, "option `path` must be a local directory, got 'hdfs://h/out'"),
        ({"path": "/out", "maxFileBytes": 0}, "`maxFileBytes` must be 1 or more bytes, got '0'"),
    ],
)
def test_wrong_option_is_named(options: dict[str, object], text: str) -> None:
    assert text in refusal(**options)


def test_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        assert f"option `path` must be a directory to write in, and {file} is" in refusal(path=path)


def test_only_append_is_accepted(tmp_path: Path) -> None:
    assert "only appends" in refusal(overwrite=True, path=tmp_path)


def test_column_without_text_form_is_named(tmp_path: Path) -> None:
    nested = StructType().add("id", LongType()).add("list", ArrayType(LongType()))
    assert "column `list` of type array<bigint>" in refusal(nested, path=tmp_path)
    assert "no column" in refusal(StructType(), path=tmp_path)


def test_half_a_line_is_not_read(tmp_path: Path) -> None:
    reader = CpuLogDataSource({"path": str(tmp_path)}).reader(StructType())
    with pytest.raises(ValueError, match=r"option `path`: no file at .*data\.\*\.csv"):
        reader.partitions()
    (tmp_path / "data.0.csv").write_text("1583309377078,0.5,whole\n1583309377078,0.5,hal")
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch[2]]
    assert [row.as_py() for row in rows] == ["whole"]


def test_plan_is_the_digest_of_sparks_file(tmp_path: Path) -> None:
    (tmp_path / "metadata").touch()
    offsets = tmp_path / "offsets" / "4"
    offsets.parent.mkdir()
    offsets.write_text("planned")
    first = read_plan(f"file://{tmp_path}", 4)
    assert first == read_plan(str(tmp_path), 4) is not None
    offsets.write_text("planned again")
    assert read_plan(str(tmp_path), 4) != first
    for unknown in (None, "s3a://bucket/checkpoint", str(tmp_path / "elsewhere")):
        assert read_plan(unknown, 4) is None
    assert read_plan(str(tmp_path), 5) is None
