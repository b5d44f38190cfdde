"""What is in an object: bytes of it to rows, for each of the formats.

Avro's and Parquet's libraries are imported where they are used: Spark plans each query in new
processes, and most need neither.

Of a part of an object come the lines that begin in it, or the row groups of a Parquet file that
do; what cannot be cut comes with the part that has its first byte.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
from pyspark.sql.types import StructType

from tutorial_pkg.builder import OptionValues, RowPacker
from tutorial_pkg.connectors.arrow_columns import (
    check_flat,
    check_names,
    fitted,
    plain,
    spark_schema,
)
from tutorial_pkg.connectors.objects.found import Part, matches
from tutorial_pkg.connectors.objects.manifests import Content
from tutorial_pkg.connectors.objects.options import FORMAT
from tutorial_pkg.connectors.store import Found, ObjectFile, Store
from tutorial_pkg.core.lines import to_lines

CHUNK = 32 << 20  # bytes in one request: each costs the server and the client work of its own
SLICE = 4 << 20  # of its bytes become rows at a time, which take several times as much memory
BUFFER = 8 << 20  # bytes in one request for an object that has to be read from its beginning
TAIL = 64 << 10  # and where only the rest of a line is wanted
BATCH_ROWS = 10_000  # of lines: the JVM takes some while Python makes the next
UNPACKING: dict[str, Callable[[Any], Any]] = {"gz": gzip.open, "bz2": bz2.open}
PACKED = {
    *("gzip", "tgz", "bzip2", "tbz2", "zst", "zstd", "lz4", "snappy", "xz", "zip", "deflate"),
    *("br", "lzo", "z", "7z"),
}

Rows = Iterator[Any]

# ---- An object's bytes ---------------------------------------------------------------------------


def _opened(store: Store, found: Found) -> Any:
    """To be read from its beginning to its end."""
    file: Any = io.BufferedReader(ObjectFile(store, found), BUFFER)
    unpack = _unpacking(found)
    return unpack(file) if unpack else file


def _unpacking(found: Found) -> Callable[[Any], Any] | None:
    ending = found.key.rpartition(".")[2].lower()
    if ending in PACKED:
        raise ValueError(f"it is compressed as {ending}, of which only gz and bz2 can be read")
    return UNPACKING.get(ending)


def _line_chunks(store: Store, part: Part) -> Iterator[bytes]:
    """The lines that begin in this part; those of a compressed object all come with its first."""
    found = part.found
    if not _unpacking(found):
        return _whole_lines(_pieces(store, part), part.begin, part.end)
    if part.begin:
        return iter(())
    file = _opened(store, found)
    return _whole_lines(iter(lambda: file.read(SLICE), b""), 0, sys.maxsize)


def _pieces(store: Store, part: Part) -> Iterator[bytes]:
    """From the byte before this part, which tells whether a line begins here, to the very end.

    While one piece of the part is worked on, the next one is on its way.
    """
    size, starts = part.found.size, range(max(0, part.begin - 1), part.end, CHUNK)
    with ThreadPoolExecutor(1) as ahead:
        following: Future[bytes] | None = None
        for at in starts:
            end = min(at + CHUNK, part.end)
            piece, following = following, ahead.submit(store.read_range, part.found, at, end)
            if piece:
                yield from _slices(piece.result())
        if following:
            yield from _slices(following.result())
    for at in range(part.end, size, TAIL):
        yield store.read_range(part.found, at, min(at + TAIL, size))


def _slices(piece: bytes) -> Iterator[bytes]:
    return (piece[at : at + SLICE] for at in range(0, len(piece), SLICE))


def _whole_lines(pieces: Iterator[bytes], begin: int, end: int) -> Iterator[bytes]:
    """Some lines at a time, each with its newline, also the last one of an object."""
    at, skipping = max(0, begin - 1), begin > 0
    rest: list[bytes] = []
    for piece in pieces:
        # A line that begins before `end` is the last one, so it is over at `end - 1` or later.
        stop = piece.find(b"\n", max(0, end - 1 - at)) + 1
        kept = piece[:stop] if stop else piece
        at += len(piece)
        if skipping:
            begins = kept.find(b"\n") + 1
            skipping, kept = not begins, kept[begins:] if begins else b""
        cut = kept.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, kept[:cut]])
            rest = []
        if kept[cut:]:
            rest.append(kept[cut:])
        if stop:
            return
    if rest:
        yield b"".join([*rest, b"\n"])


# ---- Its rows ------------------------------------------------------------------------------------


def _lines(store: Store, part: Part, schema: StructType, options: OptionValues) -> Rows:
    for chunk in _line_chunks(store, part):
        lines = pa.RecordBatch.from_arrays([to_lines(chunk)], names=schema.names)
        for first in range(0, lines.num_rows, BATCH_ROWS):
            yield lines.slice(first, BATCH_ROWS)


def _jsonl(store: Store, part: Part, schema: StructType, options: OptionValues) -> Rows:
    wanted = RowPacker(schema).arrow_schema
    parse = pa.json.ParseOptions(
        explicit_schema=pa.schema([field.with_type(plain(field.type)) for field in wanted]),
        unexpected_field_behavior="ignore",
    )
    for chunk in _line_chunks(store, part):
        chunk.decode()  # what is not UTF-8 would get to Spark as it is
        if re.match(rb"\s*null", chunk) or re.search(rb"\n\s*null", chunk):  # the first kills Arrow
            raise ValueError("a line is `null`, and no object")
        read = pa.json.ReadOptions(block_size=max(1 << 20, len(chunk)))
        table = pa.json.read_json(io.BytesIO(chunk), read, parse)
        yield from (fitted(batch, wanted) for batch in table.to_batches())


def _csv(store: Store, part: Part, schema: StructType, options: OptionValues) -> Rows:
    """A value may have newlines in it, so that nobody can tell where a row begins."""
    if part.begin:
        return
    wanted = RowPacker(schema).arrow_schema
    file = _opened(store, part.found)
    names = _header(file, options.delimiter) if options.header else schema.names
    check_names(schema.names, names)
    if names and not set(names) & set(schema.names):
        raise ValueError(
            f"its header has {names}, and none of the columns {schema.names}; see the options "
            "`delimiter` and `header`"
        )
    if not file.peek(1):
        return
    reader = pa.csv.open_csv(
        file,
        pa.csv.ReadOptions(column_names=names),
        pa.csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True),
        pa.csv.ConvertOptions(
            column_types={field.name: field.type for field in wanted},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=schema.names,
            include_missing_columns=True,
        ),
    )
    yield from (fitted(batch, wanted) for batch in reader)


def _header(file: Any, delimiter: str) -> list[str]:
    """The names in the first line that is not empty; a name may have newlines in it, too."""
    line = next(filter(bytes.strip, file), b"")
    while line.count(b'"') % 2 and (more := file.readline()):
        line += more
    rows = csv.reader(io.StringIO(line.decode("utf-8-sig"), ""), delimiter=delimiter)
    names = next(rows, [])
    if next(rows, None) is not None:
        raise ValueError("its lines end in CR alone; they must end in LF, or CR and LF")
    return names


def _avro(store: Store, part: Part, schema: StructType, options: OptionValues) -> Rows:
    from tutorial_pkg.connectors.objects import avro

    if part.begin == 0:
        with _opened(store, part.found) as file:
            try:
                yield from avro.rows(file, schema, options.avroSchema)
            except avro.SchemaResolutionError as error:
                raise ValueError(str(error)) from error


def _parquet(store: Store, part: Part, schema: StructType, options: OptionValues) -> Rows:
    from tutorial_pkg.connectors.row_groups import batches_of_file, parquet_file

    wanted = RowPacker(schema).arrow_schema
    file = parquet_file(ObjectFile(store, part.found))
    groups = [
        group
        for group in range(file.num_row_groups)
        if part.begin <= _begin(file.metadata.row_group(group)) < part.end
    ]
    check_names(schema.names, file.schema_arrow.names)
    names = [name for name in schema.names if name in file.schema_arrow.names]
    for batch in batches_of_file(file, names, row_groups=groups):
        yield fitted(batch, wanted)


def _begin(group: Any) -> int:
    column = group.column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


ROWS: dict[str, Callable[[Store, Part, StructType, OptionValues], Rows]] = {
    "lines": _lines,
    "jsonl": _jsonl,
    "csv": _csv,
    "avro": _avro,
    "parquet": _parquet,
}


def rows_of(store: Store, part: Part, schema: StructType, options: OptionValues) -> Rows:
    """The rows of a part. Raises `ValueError` that names the object that does not fit."""
    check_flat(options.format, schema)
    if not part.found.size:  # in some stores an empty object stands for a folder
        return
    try:
        yield from ROWS[options.format](store, part, schema, options)
    except (pa.ArrowException, ValueError, TypeError, EOFError) as error:
        if isinstance(error, OSError):
            raise
        what = " ".join(str(error).split())
        raise ValueError(f"`{part.found.key}` is not {options.format} as wanted: {what}") from error


# ---- Their schema --------------------------------------------------------------------------------


def schema_of(options: OptionValues) -> StructType | str:
    """Of a query that names none: that of the first object. Raises `ValueError`."""
    if options.format == "lines":
        return "value STRING"
    if options.format == "avro":
        return _avro_schema(options)
    if options.format in ("jsonl", "csv"):
        raise ValueError(
            f"format `{FORMAT}`: objects with {options.format} do not tell their columns' types; "
            'say them: `.schema("id LONG, item STRING")`'
        )
    from tutorial_pkg.connectors.row_groups import parquet_file, schema_of_file

    store, first = _first(options)
    return spark_schema(schema_of_file(parquet_file(ObjectFile(store, first))))


def _avro_schema(options: OptionValues) -> StructType:
    from tutorial_pkg.connectors.objects import avro

    if options.avroSchema:
        return avro.spark_schema(options.avroSchema)
    store, first = _first(options)
    with _opened(store, first) as file:
        return avro.spark_schema(avro.schema_text(file))


def _first(options: OptionValues) -> tuple[Store, Found]:
    store = Store(options, options.path)
    there = [each for each in Content(store).news() if matches(options, each) and each.size]
    if not there:
        raise ValueError(
            f"format `{FORMAT}`: there is no object at {options.path} yet that could tell the "
            'columns; say them: `.schema("id LONG, item STRING")`'
        )
    return store, min(there)
