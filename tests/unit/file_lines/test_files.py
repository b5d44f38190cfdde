"""Which files a path means."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.file_lines.driving import Tailing, append, read_all
from tutorial_pkg.connectors.file_lines.data_source import FileLinesDataSource


def test_globs_leave_out_hidden_names_and_folders(tmp_path):
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


@pytest.mark.parametrize("read", [read_all, lambda path: Tailing(path).batch()])
def test_two_names_of_one_file_count_once(tmp_path, read):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("once\n")
    os.link(folder / "a", folder / "b")
    (folder / "c").symlink_to(folder / "a")
    (folder / "gone").symlink_to(tmp_path / "nothing")
    (folder / "loop").symlink_to(folder / "loop")
    assert read(folder) == ["once"]


@pytest.mark.parametrize("tail", ["none/a.csv", "none/*/a.csv", "no*ne/a.csv", "*.csv"])
def test_a_path_without_files_is_an_error(tmp_path, tail):
    with pytest.raises(ValueError, match=r"option `path`: no (directory|file at) "):
        read_all(tmp_path / tail)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", "s3a://b/c"),
        ("startFrom", "now"),
        ("maxBytesPerTrigger", "0"),
        ("maxRowsPerTrigger", "-1"),
        ("maxLineBytes", "10"),
        ("notesDirectory", "no/such/notes"),
        ("eventTime", "iso"),
        ("mode", "LENIENT"),
    ],
)
def test_wrong_options_are_found_at_load(tmp_path, name, value):
    source = FileLinesDataSource({"path": str(tmp_path), name: value})
    with pytest.raises(ValueError, match=f"option `{name}` must be .*, got '{value}'"):
        source.schema()


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


@pytest.mark.parametrize("read", [read_all, lambda path: Tailing(path).batch()])
def test_a_compressed_file_asked_for_is_an_error(tmp_path, read):
    (tmp_path / "a.csv.gz").touch()
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed"):
        read(tmp_path / "a.csv.gz")
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed"):
        read_all(tmp_path)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_file_replaced_by_something_else(tmp_path, make):
    log = tmp_path / "data.csv"
    append(log, "one")
    whole, part = Tailing(tmp_path), Tailing(log)
    assert whole.batch() == part.batch() == ["one"]
    log.unlink()
    make(log)
    append(tmp_path / "other.csv", "two")
    assert whole.batch() == ["two"]
    with pytest.raises(
        ValueError, match=r"data\.csv (is neither a file nor|was a file and is a d)"
    ):
        part.batch()


def test_an_unreadable_file_is_an_error():
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret.csv")
        append(secret, "one")
        Path(folder).chmod(0o755)
        secret.chmod(0)
        with as_ordinary_user(), pytest.raises(PermissionError, match=f"cannot read {secret}"):
            Tailing(Path(folder)).batch()


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root reads everything, so become an ordinary user for a moment."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)
