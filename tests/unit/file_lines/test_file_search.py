"""Which files a path means, and what is said of one that means none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.file_lines.driving import Tailing, append, read_all
from tutorial_pkg.connectors.file_lines.data_source import FileLinesDataSource


def test_globs_directories_and_hidden_names(tmp_path):
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


def test_two_names_of_one_file_count_once(tmp_path):
    (tmp_path / "a").write_text("once\n")
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    assert read_all(tmp_path) == ["once"]


def test_a_path_that_means_nothing(tmp_path):
    with pytest.raises(ValueError) as error:
        read_all(tmp_path / "*.csv")
    assert str(error.value) == (
        f"option `path`: no file at {tmp_path}/*.csv; correct it, or write the file"
    )


@pytest.mark.parametrize("tail", ["none/a.csv", "none/*/a.csv", "no*ne/a.csv"])
def test_a_directory_that_does_not_exist(tmp_path, tail):
    with pytest.raises(ValueError) as error:
        FileLinesDataSource({"path": f"{tmp_path}/{tail}"}).schema()
    folder = f"{tmp_path}/{tail}".rpartition("/")[0]
    assert str(error.value) == (
        f"option `path`: no directory '{folder}'; create it, or correct `path`"
    )


def test_another_file_system():
    with pytest.raises(
        ValueError, match=r"must be a local file, directory or glob, got 's3a://b/c'"
    ):
        FileLinesDataSource({"path": "s3a://b/c"}).schema()


def test_compressed_files(tmp_path):
    (tmp_path / "a.csv.gz").touch()
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed, .* use a pattern that leaves"):
        read_all(tmp_path)
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed"):
        Tailing(tmp_path).batch()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startFrom", "now"),
        ("maxBytesPerTrigger", "0"),
        ("maxRowsPerTrigger", "-1"),
        ("maxLineBytes", "10"),
        ("eventTime", "iso"),
        ("mode", "LENIENT"),
    ],
)
def test_wrong_options_are_found_at_load(tmp_path, name, value):
    source = FileLinesDataSource({"path": str(tmp_path), name: value})
    with pytest.raises(ValueError, match=f"option `{name}` must be .*, got '{value}'"):
        source.schema()


def test_a_fifo_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is neither a file nor a directory"):
        read_all(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is neither a file nor a directory"):
        Tailing(tmp_path / "pipe").batch()


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
    with pytest.raises(ValueError, match=r"data\.csv is neither a file nor|is a directory now"):
        part.batch()


def test_an_unreadable_file_is_an_error():
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret.csv")
        append(secret, "one")
        tailing = Tailing(Path(folder))
        Path(folder).chmod(0o755)
        secret.chmod(0)
        with as_ordinary_user(), pytest.raises(PermissionError) as error:
            tailing.batch()
    assert str(error.value) == (
        f"cannot read {secret}: Permission denied; let the user who runs Spark read it, "
        "or use a path that leaves it out"
    )


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root reads everything, so become someone else for a moment if we are root."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)
