"""A database for a lesson: there, empty, quiet, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg

from tutorial_pkg.workbook.services import Postgres


def process(folder: Path) -> int:
    return int((folder / "postmaster.pid").read_text().splitlines()[0])


def lives(number: int) -> bool:
    """A zombie is dead: nobody has asked for its end yet, that is all."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tables(uri: str) -> list[tuple[str, ...]]:
    with psycopg.connect(uri) as database:
        text = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return database.execute(text).fetchall()


def test_a_server_is_gone_when_it_is_closed(database_folder: Path) -> None:
    with Postgres(database_folder) as server:
        assert tables(server.uri) == []
        number = process(database_folder)
        assert lives(number)
    assert not lives(number)
    server.close()  # once more does no harm


def test_a_lesson_that_begins_again_finds_an_empty_database(database_folder: Path) -> None:
    first = Postgres(database_folder)
    with psycopg.connect(first.uri) as database:
        database.execute("CREATE TABLE left_over (number INT)")
    Postgres.close_all()
    shutil.rmtree(database_folder)
    with Postgres(database_folder) as second:
        assert tables(second.uri) == []


def test_it_prints_nothing_where_no_runtime_folder_is_known(database_folder: Path) -> None:
    code = (
        "from pathlib import Path; from tutorial_pkg.workbook.services import Postgres; "
        f"Postgres(Path({str(database_folder)!r})).close()"
    )
    without = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run([sys.executable, "-c", code], env=without, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
