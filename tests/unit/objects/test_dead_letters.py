"""The option `deadLetters` of format `objects`: a part that cannot be read is left out entirely."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.objects.folders import batch_reader, values
from tests.unit.objects.test_formats import ROW, avro_field, write_avro

GOOD, BAD = "good", "bad"


def put(folder: Path, form: str) -> None:
    """Write an object with one row, and one whose second half is damaged."""
    folder.mkdir()
    if form == "jsonl":
        many = '{"id": 1, "item": "a"}\n' * 300_000  # more than is decoded at a time
        (folder / GOOD).write_text('{"id": 1, "item": "a"}')
        (folder / BAD).write_text(many + '{"id": "one"}\n')
    elif form == "csv":
        (folder / GOOD).write_text("id,item\n1,a\n")
        (folder / BAD).write_text("id,item\n" + "1,a\n" * 300_000 + "one,a\n")
    elif form == "avro":
        fields = [avro_field("id", "long"), avro_field("item", "string")]
        write_avro(folder / GOOD, fields, {"id": 1, "item": "a"})
        (folder / BAD).write_bytes((folder / GOOD).read_bytes()[:-20])
    else:
        pq.write_table(pa.table({"id": [1], "item": ["a"]}), folder / GOOD)
        (folder / BAD).write_bytes((folder / GOOD).read_bytes()[:-4])


@pytest.mark.parametrize("form", ["jsonl", "csv", "avro", "parquet"])
def test_unreadable_object_is_set_aside(tmp_path: Path, form: str) -> None:
    put(tmp_path / "in", form)
    letters: dict[str, Any] = {"deadLetters": tmp_path / "letters", "parallelism": 1}
    for _ in range(2):  # the second time, the file is replaced
        reader = batch_reader(tmp_path / "in", ROW, format=form, **letters)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        assert [row["id"] for batch in batches for row in batch.to_pylist()] == [1]
        [file] = (tmp_path / "letters").iterdir()
        letter = json.loads(file.read_text())
        assert (letter["source"], Path(letter["object"]).name) == ("objects", BAD)
        assert f"cannot read `{BAD}`" in letter["problem"]
    with pytest.raises(Exception, match=f"cannot read `{BAD}`"):
        reader = batch_reader(tmp_path / "in", ROW, format=form)
        [batch for part in reader.partitions() for batch in reader.read(part)]


def test_readable_lines_pass_and_damaged_gzip_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines").write_text("a\n\nb")
    assert values(tmp_path / "in", deadLetters=tmp_path / "letters") == ["a", "", "b"]
    assert not (tmp_path / "letters").exists()
    packed = gzip.compress(b"a\n" * 99)
    (tmp_path / "in" / "bad.gz").write_bytes(packed[:10] + b"\xff" + packed[11:])
    assert values(tmp_path / "in", deadLetters=tmp_path / "letters") == ["a", "", "b"]
    [file] = (tmp_path / "letters").iterdir()
    assert "cannot read `bad.gz`" in file.read_text()
