"""What format `cpu_log` refuses before the first task, and what it reads back: without Spark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, LongType, StructType

from tutorial_pkg.connectors.cpu_log import CpuLogDataSource

NUMBERS = StructType().add("id", LongType())


def refused(schema: StructType = NUMBERS, overwrite: bool = False, **options: object) -> str:
    source = CpuLogDataSource({name: str(value) for name, value in options.items()})
    with pytest.raises(ValueError) as failed:
        source.writer(schema, overwrite)
    return str(failed.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"pathh": "/out"},
            "unknown option `pathh`; did you mean `path`? It takes `path`, `maxFileBytes`, "
            "`failOnDuplicates`.",
        ),
        ({}, "option `path` is missing; give a local directory"),
        ({"path": "hdfs://h/out"}, "option `path` must be a local directory, got 'hdfs://h/out'"),
        (
            {"path": "/out", "maxFileBytes": 0},
            "option `maxFileBytes` must be 1 or more bytes, got '0'",
        ),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    assert refused(**options).startswith(f"format `cpu_log`: {text}")


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "below"):
        assert refused(path=path) == (
            f"format `cpu_log`: option `path` must be a directory, but {file} is a file"
        )


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can write in; for root only a read-only mount is one."""
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    if os.geteuid():
        yield folder
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder])
    if mounted.returncode:
        pytest.skip("root is not allowed to mount a read-only file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("below", [".", "out", "out/deep"])
def test_a_read_only_folder_is_named(read_only: Path, below: str) -> None:
    assert refused(path=read_only / below) == (
        f"format `cpu_log`: option `path` must be a directory to write in, but {read_only} is "
        "read-only; choose another one, or change its permissions"
    )


def test_only_appending_modes_are_taken(tmp_path: Path) -> None:
    assert refused(overwrite=True, path=tmp_path) == (
        'format `cpu_log` only appends: use `.mode("append")` or `.outputMode("append")`; '
        "to begin anew, delete the directory"
    )


def test_a_column_without_text_form_is_named(tmp_path: Path) -> None:
    with_list = StructType().add("id", LongType()).add("list", ArrayType(LongType()))
    assert refused(with_list, path=tmp_path) == (
        "format `cpu_log`: column `list` of type array<bigint> has no text form; "
        "cast it to STRING first"
    )
    assert "the DataFrame has no column to write" in refused(StructType(), path=tmp_path)


def test_half_a_line_is_not_read_and_no_file_is_an_error(tmp_path: Path) -> None:
    reader = CpuLogDataSource({"path": str(tmp_path)}).reader(NUMBERS)
    with pytest.raises(ValueError, match=r"option `path`: no file at .*data\.\*\.csv"):
        reader.partitions()
    (tmp_path / "data.0.csv").write_text("1583309377078,0.5,whole\n1583309377078,0.5,hal")
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch[2]]
    assert [row.as_py() for row in rows] == ["whole"]
