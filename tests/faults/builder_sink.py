"""A built sink that commits to a database in two steps, and can be halted around the commit."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import REQUIRED, BatchContext, SinkBuilder, SinkContext, local_directory

POINTS = ("before", "inside", "after")
TASKS_FAIL = "TASKS_FAIL"  # an environment variable: some do, at first
_TABLES = """CREATE TABLE IF NOT EXISTS done (query, batch, UNIQUE (query, batch));
CREATE TABLE IF NOT EXISTS rows (source, who, number)"""


class Stage:
    """A task's rows, in a file that only the commit makes count. Some tasks may fail once."""

    def __init__(self, context: SinkContext) -> None:
        name = f"{context.query}-{context.batch}-{context.index}-{uuid.uuid4().hex}.staged"
        self.file = Path(context.options.path, name)
        task = TaskContext.get()
        fails = task is not None and task.attemptNumber() == 0 and TASKS_FAIL in os.environ
        self.fails = fails and (context.batch + context.index) % 5 == 0
        self.rows: list[Sequence[Any]] = []

    def receive(self, batch: pa.RecordBatch) -> None:
        self.rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def flush(self) -> str:
        self.file.write_text(json.dumps(self.rows))
        if self.fails:
            raise OSError("this task has to be repeated")
        return str(self.file)


def commit(context: BatchContext, files: list[str]) -> None:
    """All rows and a note of the batch at one stroke; nothing if the note is there."""
    folder = Path(context.options.path)
    _halt(folder, "before")
    with closing(connected(folder)) as database:
        database.execute("BEGIN IMMEDIATE")
        note = (context.query, context.batch)
        if database.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", note).rowcount:
            rows = [row for file in files for row in json.loads(Path(file).read_text())]
            database.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        _halt(folder, "inside")
        database.execute("COMMIT")
    _halt(folder, "after")
    for file in files:
        Path(file).unlink(missing_ok=True)


def connected(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "rows.db", timeout=60, isolation_level=None)
    database.executescript(_TABLES)
    return database


def _halt(folder: Path, point: str) -> None:
    """Wait to be killed, if this is the point that the test has asked for."""
    if (folder / f"halt {point}").exists():
        (folder / "halted").touch()
        time.sleep(600)


def database_sink() -> type[DataSource]:
    builder = SinkBuilder.stream("database", Stage).receive_batch(Stage.receive)
    builder = builder.flush(Stage.flush).commit(commit)
    return builder.option("path", local_directory, REQUIRED, "of the database").build()
