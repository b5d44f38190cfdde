"""`SinkBuilder.dbapi`: the rows of a batch and its record, in one transaction of a database."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import accumulate
from typing import Any

import pyarrow as pa

from tutorial_pkg.builder.context import BatchContext
from tutorial_pkg.core.batch_order import is_repeated
from tutorial_pkg.core.options import REQUIRED, Option, OptionValues, accepts

RECORDS = "spark_batches_written"
CREATE = f"""CREATE TABLE IF NOT EXISTS {RECORDS} (query_id VARCHAR(36), target VARCHAR(200),
    batch BIGINT, row_total BIGINT, PRIMARY KEY (query_id, target, batch))"""
NAME = r"[^\W\d]\w*"  # not quoted, because databases differ in their quotes
PLACEHOLDERS = {
    "qmark": "?",
    "format": "%s",
    "numeric": ":{number}",
    "named": ":c{number}",
    "pyformat": "%(c{number})s",
}

Connect = Callable[[OptionValues], Any]
Insert = Callable[[Any, str, pa.RecordBatch], object]


@accepts("`name` or `schema.name`, of letters, digits and `_`")
def table_name(text: str) -> str:
    if not re.fullmatch(rf"{NAME}(\.{NAME})?", text):
        raise ValueError
    return text


TABLE = Option("table", table_name, REQUIRED, "the table, with a column for each of the rows'")


def publish(
    connect: Connect,
    insert: Insert,
    begin: str | None,
    context: BatchContext,
    handles: list[list[pa.RecordBatch]],
) -> None:
    """Insert all rows and record the batch in one transaction; do nothing for a repeated batch."""
    batches = [batch for handle in handles for batch in handle]
    rows, table = sum(batch.num_rows for batch in batches), context.options.table
    known = f"query_id = '{context.query}' AND target = '{table}'"
    with closing(connect(context.options)) as connection, closing(connection.cursor()) as cursor:
        try:
            cursor.execute(f"SELECT 1 FROM {RECORDS} WHERE 1 = 0")
            cursor.fetchall()  # some clients require it
        except Exception:  # clients differ in their errors; not every role may create tables
            with suppress(Exception):  # of a client that has begun no transaction
                connection.rollback()
            cursor.execute(CREATE)
        if begin:
            cursor.execute(begin)
        cursor.execute(f"SELECT batch, row_total FROM {RECORDS} WHERE {known} ORDER BY batch DESC")
        last, last_rows = cursor.fetchone() or (None, None)
        if is_repeated(f"table `{table}`", context.batch, last, rows == last_rows):
            return
        # First of all, so that a second driver with this batch waits here, and fails.
        values = f"'{context.query}', '{table}', {context.batch}, {rows}"
        cursor.execute(f"INSERT INTO {RECORDS} VALUES ({values})")
        cursor.execute(f"DELETE FROM {RECORDS} WHERE {known} AND batch < {context.batch}")
        if context.overwrite:
            cursor.execute(f"DELETE FROM {table}")
        for batch in batches:
            if batch.num_rows:
                insert(cursor, table, batch)
        cursor.execute("COMMIT")  # clients differ in what `commit()` does


def insert_rows(cursor: Any, table: str, batch: pa.RecordBatch) -> None:
    """Insert rows by the names of their columns, with the placeholders of the client's module."""
    names = batch.schema.names
    if odd := [name for name in names if not re.fullmatch(NAME, name)]:
        raise ValueError(f"columns {odd} are not plain names; rename them: letters, digits, `_`")
    inside = accumulate(type(cursor).__module__.split("."), "{}.{}".format)  # a.b.c: a, a.b, a.b.c
    styles = (getattr(sys.modules[module], "paramstyle", None) for module in inside)
    style = next(filter(None, styles), "qmark")
    places = [PLACEHOLDERS[style].format(number=number) for number in range(1, len(names) + 1)]
    rows: list[Any] = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    if style in ("named", "pyformat"):
        rows = [{f"c{number}": value for number, value in enumerate(row, 1)} for row in rows]
    values = f"({', '.join(names)}) VALUES ({', '.join(places)})"
    cursor.executemany(f"INSERT INTO {table} {values}", rows)
