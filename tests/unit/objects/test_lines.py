"""Lines of objects that are cut anywhere: each comes once."""

from __future__ import annotations

import gzip
import random
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.objects.stores import batch_reader, rows, store_at, values
from tutorial_pkg.connectors.objects import reading
from tutorial_pkg.connectors.objects.found import Part
from tutorial_pkg.connectors.objects.reading import _line_chunks
from tutorial_pkg.core.worker import CORES


@pytest.mark.parametrize("seed", range(40))
def test_any_cut_gives_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(reading, "CHUNK", chance.randint(1, 40))
    monkeypatch.setattr(reading, "SLICE", chance.randint(1, 40))
    monkeypatch.setattr(reading, "TAIL", chance.randint(1, 40))
    lines = [b"x" * chance.choice([0, 0, 1, 5, 90]) + b"%d" % line for line in range(31)]
    ending = chance.choice([b"", b"\n"])
    content = b"\n".join(lines) + ending
    found = store_at(tmp_path).write("a.txt", content)
    cuts = sorted({0, len(content), *(chance.randint(0, len(content)) for _ in range(9))})
    got = b"".join(
        chunk
        for begin, end in pairwise(cuts)
        for chunk in _line_chunks(store_at(tmp_path), Part(found, begin, end))
    )
    assert got == b"\n".join(lines) + b"\n"


def test_a_large_object_is_read_by_several_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{number} {'x' * 90}" for number in range(55_021)]
    (tmp_path / "large.txt").write_text("\n".join(lines))
    assert len(batch_reader(tmp_path, parallelism=3).partitions()) == 3
    monkeypatch.setenv(CORES, "5")
    assert len(batch_reader(tmp_path).partitions()) == 5
    assert values(tmp_path, parallelism=3) == lines


def test_compressed_and_empty_objects_and_those_without_a_newline(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n\ntwo"))
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes(b"\r\nthree\r\n\xff")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "d.txt").write_text("no")
    assert values(tmp_path) == ["one", "", "two", "", "three", "\ufffd"]


def test_jsonl_that_does_not_fit_names_the_object(tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructType

    (tmp_path / "a.jsonl").write_text('{"id":1}\n{"id":"x"}\n')
    schema = StructType().add("id", LongType())
    with pytest.raises(Exception, match=r"`a\.jsonl` is not jsonl as wanted: .*number to string"):
        rows(tmp_path, schema, format="jsonl")
