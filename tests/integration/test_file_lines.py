"""file_lines on real Spark, with Spark's own `text` source as the oracle where it can be one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest


def append(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def test_batch_agrees_with_spark_text(spark, folder):
    (folder / "a").write_bytes(b"plain\n\nnul\x00\xc3\xa9\r\nlast without newline")
    append(folder / "b", *range(20_000))
    ours = spark.read.format("file_lines").load(str(folder))
    text = spark.read.text(str(folder))
    assert ours.schema == text.schema
    assert Counter(ours.collect()) == Counter(text.collect())
