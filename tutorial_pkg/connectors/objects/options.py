"""The options of format `objects`. Nothing here needs the store's client."""

from __future__ import annotations

import json
from typing import Any

from tutorial_pkg.builder import (
    FAIL_ON_DATA_LOSS,
    Option,
    accepts,
    boolean,
    choice,
    integer,
    names,
    not_empty,
)
from tutorial_pkg.connectors.store_options import STORE, address

FORMAT = "objects"


@accepts("an Avro schema, as JSON")
def reader_schema(text: str) -> Any:
    import fastavro  # comes with the store's client

    schema = json.loads(text)
    try:
        fastavro.parse_schema(schema)
    except (fastavro.schema.SchemaParseException, LookupError, TypeError):
        raise ValueError from None
    return schema


@accepts("one ASCII character, such as `;` or a tab")
def delimiter(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in '"\n\r\0':
        raise ValueError
    return text


SHARED = (
    *STORE,
    Option("header", boolean, True, "csv: the first line has the columns' names"),
)
READ = (
    *SHARED,
    Option("format", choice("lines", "jsonl", "csv", "avro", "parquet"), "lines", "what to read"),
    Option("glob", not_empty, "*", "which objects: the part of the name after the last `/`"),
    Option("delimiter", delimiter, ",", "csv: between two values"),
    Option("avroSchema", reader_schema, None, "avro: read all objects with this schema"),
    Option(
        "replaced",
        choice("report", "again", "refuse"),
        "report",
        "an object that was replaced: warn in the log, and leave it; read it again as a whole; or "
        "end the query",
    ),
    Option(
        "keysGrow",
        boolean,
        False,
        "list only what comes after the largest name so far. An object that arrives later under "
        "a smaller name is never read, and a replaced one is not noticed",
    ),
    Option("lookSeconds", integer(0), 1, "stream: at least this many seconds between two listings"),
    Option("notes", address, None, "stream: where to record found objects, instead of `_found/`"),
    FAIL_ON_DATA_LOSS,
    Option("deadLetters", address, None, "where unreadable objects are recorded, and left out"),
    Option("maxBytesPerTrigger", integer(1), None, "about how many bytes a batch has"),
)
WRITE = (
    *SHARED,
    Option("format", choice("parquet", "avro", "csv", "jsonl"), "parquet", "what to write"),
    Option("partitionBy", names, (), "columns: a folder `name=value` for each of their values"),
)
