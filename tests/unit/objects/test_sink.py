"""Batches into a folder: each once, complete or not at all, and nothing is left behind."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from tests.unit.objects.folders import QUERY, VALUE, Query, rows, store_at, stream, values
from tests.values import IN_FOLDERS
from tutorial_pkg.connectors.objects import object_log


def published(folder: Path) -> Counter[str]:
    return Counter(row["value"] for row in rows(folder, VALUE, format="jsonl"))


def data_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("part-*") if file.is_file()]


def test_repeated_batch_counts_once(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.write(0, ["a"], ["b"])
    query.write(0, ["a"], ["b"])
    assert published(tmp_path) == Counter(["a", "b"])
    with pytest.raises(ValueError, match=r"batch 0 .* set back"):
        query.write(0, ["a"])
    query.write(2, ["b"])  # batch 1 has no rows
    for batch in (0, 1):
        with pytest.raises(ValueError, match=rf"up to 2, and batch {batch} .* set back"):
            query.write(batch, ["a"], ["b"])


def test_leftovers_of_dead_tasks_are_removed(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.upload(0, 0, ["of a killed task"])
    ahead = query.upload(2, 0, ["of a later batch"])
    query.write(0, ["a"])
    query.write(0, ["a"])
    query.write(1, ["b"])
    assert len(data_files(tmp_path)) == 3
    query.commit(2, [ahead])
    for batch in range(3, 15):
        query.write(batch, ["c"])
    assert sum(published(tmp_path).values()) == len(data_files(tmp_path)) == 15
    assert not store_at(tmp_path).listing(f"_manifests/{QUERY}/open")


def test_many_batches_are_joined(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for batch in range(0, 3 * 85, 3):  # not every batch has rows
        query.write(batch, [f"{batch}"])
    assert published(tmp_path) == Counter(map(str, range(0, 3 * 85, 3)))
    joined = list((tmp_path / "_manifests" / QUERY / "joined").iterdir())
    assert 1 < len(joined) < 85 / object_log.JOIN_AFTER


@pytest.mark.parametrize("size", [0, 1, 1_000, -5])
def test_damaged_joined_manifest_is_not_trusted(tmp_path: Path, size: int) -> None:
    """As a power failure leaves them: empty, torn, or full of zeros."""
    query = Query(tmp_path)
    for batch in range(20):
        query.write(batch, [f"{batch}"])
    [joined] = (tmp_path / "_manifests" / QUERY / "joined").iterdir()
    content = joined.read_bytes()
    joined.write_bytes(content[:size] if size != 1 else bytes(len(content)))
    assert published(tmp_path) == Counter(map(str, range(20)))
    for batch in range(20, 40):
        query.write(batch, [f"{batch}"])
    assert published(tmp_path) == Counter(map(str, range(40)))


def test_damaged_manifest_is_an_error(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for batch in range(3):
        query.write(batch, [f"{batch}"])
    manifest = tmp_path / "_manifests" / QUERY / "each" / f"{2:020}"
    manifest.write_bytes(b"")
    for work in (lambda: published(tmp_path), lambda: query.write(2, ["2"])):
        with pytest.raises(Exception, match=f"{manifest.name} is empty or damaged"):
            work()
    manifest.unlink()
    query.write(2, ["2"])
    assert published(tmp_path) == Counter(["0", "1", "2"])


def test_files_are_synced_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path, format="jsonl", partitionBy="value")
    synced: list[str] = []
    fsync = os.fsync

    def record(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        synced.append(name.removeprefix(".").partition("#")[0])  # which mark a draft
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    handle = query.upload(0, 0, ["a"])
    [file] = data_files(tmp_path)
    assert {*synced} >= {file.name, file.parent.name}
    synced.clear()
    query.commit(0, [handle])
    assert synced[:4] == [f"{0:020}", "each", QUERY, "_manifests"]


def test_stream_follows_the_manifests(tmp_path: Path) -> None:
    query = Query(tmp_path)
    run, seen = stream(tmp_path, format="jsonl"), []
    for batch in range(40):
        query.write(batch, [f"{batch}"])
        query.upload(batch + 1, 9, ["uncommitted"])
        if batch % 3 == 0:
            seen += run.rows()
    again = stream(tmp_path, run.offset, format="jsonl")
    assert seen + again.rows() == [f"{batch}" for batch in range(40)]


def test_copy_of_a_folder_can_be_read(tmp_path: Path) -> None:
    Query(tmp_path / "a").write(0, ["1"], ["2"])
    copy = shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert values(copy, format="jsonl") == stream(copy, format="jsonl").rows() == ["1", "2"]


def test_folder_with_other_objects_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="has objects that no manifest names"):
        Query(tmp_path)
    assert values(tmp_path) == ["mine"]


# ---- Values --------------------------------------------------------------------------------------


def test_folders_are_named_as_in_spark(tmp_path: Path) -> None:
    """Spark reads `%C3` as one letter, so only ASCII is escaped."""
    schema = StructType().add("id", LongType()).add("item", StringType())
    query = Query(tmp_path, schema, format="parquet", partitionBy="id, item")
    expected = dict(enumerate([*IN_FOLDERS, ""]))
    query.write(0, [*expected.items()])
    assert {row["id"]: row["item"] for row in rows(tmp_path, schema, format="parquet")} == expected
    folders = {folder.name.removeprefix("item=") for folder in tmp_path.glob("id=*/item=*")}
    assert folders >= {"ä", "日本", "%25", "a%2Fb", "a%3Db", " ", "__HIVE_DEFAULT_PARTITION__"}
