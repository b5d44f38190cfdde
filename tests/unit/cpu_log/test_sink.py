"""What the sink checks before a query, which plan it records, and what is read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, LongType, StructType

from tutorial_pkg.connectors.cpu_log import CpuLogDataSource
from tutorial_pkg.connectors.cpu_log.sink import read_plan

NUMBERS = StructType().add("id", LongType())


@pytest.mark.parametrize(
    ("options", "schema", "overwrite", "text"),
    [
        ({"path": "/out"}, NUMBERS, True, "only appends"),
        ({"path": "/out"}, StructType(), False, "no column"),
        (
            {"path": "/out"},
            StructType().add("list", ArrayType(LongType())),
            False,
            "column `list` of type array<bigint>",
        ),
    ],
)
def test_unfit_query_is_refused(
    options: dict[str, str], schema: StructType, overwrite: bool, text: str
) -> None:
    with pytest.raises(ValueError, match=r"^format `cpu_log`") as failed:
        CpuLogDataSource(options).writer(schema, overwrite)
    assert text in str(failed.value)


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
