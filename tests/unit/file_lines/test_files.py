"""Which files a path means."""

from __future__ import annotations

import os

import pytest

from tests.unit.file_lines.driving import Tailing, append, read_all

BOTH = pytest.mark.parametrize("read", [read_all, lambda path: Tailing(path).batch()])


def test_globs_leave_out_hidden_names(tmp_path):
    for name in ("a.csv", "b.txt", ".hidden.csv", "_started.csv", "x[1].csv"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    assert sorted(read_all(tmp_path / "*.csv")) == ["a.csv", "x[1].csv"]
    assert sorted(read_all(tmp_path)) == ["a.csv", "b.txt", "x[1].csv"]
    assert read_all(tmp_path / "_*.csv") == ["_started.csv"]
    assert read_all(tmp_path / "x[1].csv") == ["x[1].csv"]
    assert read_all(f"file://{tmp_path}/b.txt") == ["b.txt"]
    assert sorted(read_all(f"{tmp_path.parent}/{tmp_path.name[:-1]}?/[ab].*")) == ["a.csv", "b.txt"]


@BOTH
def test_two_names_of_one_file_count_once(tmp_path, read):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("once\n")
    os.link(folder / "a", folder / "b")
    (folder / "c").symlink_to(folder / "a")
    (folder / "gone").symlink_to(tmp_path / "nothing")
    assert read(folder) == ["once"]


@pytest.mark.parametrize("tail", ["none/a.csv", "no*ne/a.csv", "*.csv"])
def test_a_path_without_files_is_an_error(tmp_path, tail):
    with pytest.raises(ValueError, match="option `path`"):
        read_all(tmp_path / tail)


def test_a_stream_leaves_out_compressed_files(tmp_path, caplog):
    append(tmp_path / "app.log", "one")
    for name in ("app.log.1.gz", "app.log.2.zst"):
        (tmp_path / name).write_bytes(b"\x1f\x8b not text")
    tailing = Tailing(tmp_path / "app.log*", restarts=False)
    assert tailing.batch() == ["one"]
    append(tmp_path / "app.log", "two")
    assert tailing.batch() == ["two"]
    assert len(caplog.messages) == 1
    assert str(tmp_path / "app.log.1.gz") in caplog.text


@BOTH
def test_a_compressed_file_asked_for_is_an_error(tmp_path, read):
    (tmp_path / "a.csv.gz").touch()
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed"):
        read(tmp_path / "a.csv.gz")
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed"):
        read_all(tmp_path)


@BOTH
def test_a_pipe_is_an_error(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is neither a file nor a directory"):
        read(tmp_path / "pipe")
