"""The plan of a batch: where it is found, what of the checkpoint is synced, and what it tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tutorial_pkg.connectors.cpu_log.checkpoint_plan import local_checkpoint, synced_plan


def test_a_checkpoint_is_where_the_query_or_its_session_has_it() -> None:
    assert local_checkpoint("/own", "/all", "name") == Path("/own")
    assert local_checkpoint("file:///own", None, None) == Path("/own")
    assert local_checkpoint(None, "/all", "name") == Path("/all/name")
    assert local_checkpoint(None, "/all", None) is None, "Spark then invents a name"
    assert local_checkpoint(None, None, "name") is None
    assert local_checkpoint("s3a://bucket/own", "/all", "name") is None


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for name in ("metadata", "offsets/3", "offsets/4", "offsets/.4.crc", "commits/3", "commits/2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "4").write_text("files of batch 4")
    return tmp_path


def test_a_plan_is_the_note_byte_by_byte(checkpoint: Path) -> None:
    first = synced_plan(checkpoint, 4)
    assert first == synced_plan(checkpoint, 4)
    (checkpoint / "offsets" / "4").write_text("offsets/4, planned anew")
    assert synced_plan(checkpoint, 4) != first


def test_without_a_note_no_plan_is_known(checkpoint: Path) -> None:
    assert synced_plan(checkpoint, 5) is None
    assert synced_plan(None, 4) is None
    assert synced_plan(checkpoint / "elsewhere", 4) is None


def test_what_a_restart_reads_is_on_the_disk(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: names.append(Path(f"/dev/fd/{file}").resolve()))
    synced_plan(checkpoint, 4)
    files = {"metadata", "offsets/3", "offsets/4", "offsets/.4.crc", "commits/3", "sources/0/4"}
    folders = {"offsets", "commits", "sources/0", ".", ".."}
    assert {os.path.relpath(name, checkpoint) for name in names} == files | folders
    names.clear()
    (checkpoint / "commits" / "3").write_text("changed")
    synced_plan(checkpoint, 4)
    assert [os.path.relpath(name, checkpoint) for name in names] == ["commits/3"]


def test_a_disk_that_refuses_is_an_error(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        synced_plan(checkpoint, 4)
