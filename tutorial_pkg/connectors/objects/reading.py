"""The bytes of an object to rows, for each of the formats.

A part of an object has the lines, or the row groups of a Parquet file, that begin in it. An object
that cannot be cut belongs to the part with its first byte.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
from pyspark.sql.types import StructType

from tutorial_pkg.builder import OptionValues, RowPacker, SplitContext
from tutorial_pkg.connectors.arrow_columns import check_flat, fit_batch, map_type, spark_schema
from tutorial_pkg.connectors.objects import avro
from tutorial_pkg.connectors.objects.object_log import Content
from tutorial_pkg.connectors.objects.options import FORMAT
from tutorial_pkg.connectors.objects.tape import Part, matches
from tutorial_pkg.connectors.parquet_files import batches_of_file, parquet_file, schema_of_file
from tutorial_pkg.connectors.store import ObjectFile, ObjectInfo, ReplacedError, Store
from tutorial_pkg.core import dead_letters
from tutorial_pkg.core.arrow_casts import check_names
from tutorial_pkg.core.lines import to_lines

CHUNK = 32 << 20  # bytes in one request: each costs the server and the client some work
SLICE = 4 << 20  # of them become rows at a time: rows take several times as much memory
TAIL = 64 << 10  # and where only the rest of a line is needed
BATCH_ROWS = 10_000  # of lines: the JVM takes some while Python prepares the next
UNPACKING: dict[str, Callable[[Any], Any]] = {"gz": gzip.open, "bz2": bz2.open}
PACKED = {
    *("gzip", "tgz", "bzip2", "tbz2", "zst", "zstd", "lz4", "snappy", "xz", "zip", "deflate"),
    *("br", "lzo", "z", "7z"),
}
UTF8_MARK = b"\xef\xbb\xbf"
UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0]", re.DOTALL)

Rows = Iterator[pa.RecordBatch]

# ---- An object's bytes ---------------------------------------------------------------------------


class PartFile(io.RawIOBase):
    """The bytes from the one before a part to the end of the object.

    The byte before tells whether a line begins here. The next piece is fetched while one is used.
    """

    def __init__(self, store: Store, part: Part) -> None:
        self._pieces, self._piece = _pieces(store, part), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._piece = self._piece or memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._piece))
        buffer[:size], self._piece = self._piece[:size], self._piece[size:]
        return size


def _pieces(store: Store, part: Part) -> Iterator[bytes]:
    size, starts = part.info.size, range(max(0, part.start - 1), part.end, CHUNK)
    with ThreadPoolExecutor(1) as ahead:
        following: Future[bytes] | None = None
        for at in starts:
            end = min(at + CHUNK, part.end)
            piece, following = following, ahead.submit(store.read_range, part.info, at, end)
            if piece:
                yield piece.result()
        if following:
            yield following.result()
    for at in range(part.end, size, TAIL):
        yield store.read_range(part.info, at, min(at + TAIL, size))


def _open(store: Store, part: Part) -> Any:
    """Open an object at the byte before a part; one that is compressed must be a single part."""
    file, unpack = io.BufferedReader(PartFile(store, part), SLICE), _unpacking(part.info)
    return unpack(file) if unpack else file


def _unpacking(info: ObjectInfo) -> Callable[[Any], Any] | None:
    ending = info.key.rpartition(".")[2].lower()
    if ending in PACKED:
        raise ValueError(f"it is compressed as {ending}; only gz and bz2 can be read")
    return UNPACKING.get(ending)


def _line_chunks(store: Store, part: Part) -> Iterator[bytes]:
    """Yield the lines that begin in this part, some at a time, each with a newline."""
    file, at = _open(store, part), max(0, part.start - 1)
    end = sys.maxsize if _unpacking(part.info) else part.end
    if part.start:
        at += len(file.readline())
    while at < end and (chunk := file.read(min(SLICE, end - at))):
        if not chunk.endswith(b"\n"):
            chunk += file.readline()
        at += len(chunk)
        whole = chunk if chunk.endswith(b"\n") else chunk + b"\n"  # the end of the object
        yield whole if part.start or at > len(chunk) else _without_mark(whole)


def _without_mark(text: bytes) -> bytes:
    """Remove a byte order mark from the beginning of an object, and refuse UTF-16."""
    if UTF16.match(text):
        raise ValueError("its text is UTF-16; convert it to UTF-8")
    return text.removeprefix(UTF8_MARK)


# ---- Its rows ------------------------------------------------------------------------------------


def _lines(store: Store, part: Part, schema: pa.Schema, context: SplitContext) -> Rows:
    for chunk in _line_chunks(store, part):
        lines = pa.RecordBatch.from_arrays([to_lines(chunk)], schema.names)
        for first in range(0, lines.num_rows, BATCH_ROWS):
            yield lines.slice(first, BATCH_ROWS)


def _jsonl(store: Store, part: Part, schema: pa.Schema, context: SplitContext) -> Rows:
    as_json = pa.schema([field.with_type(map_type(field.type, _json_type)) for field in schema])
    parse = pa.json.ParseOptions(explicit_schema=as_json, unexpected_field_behavior="ignore")
    for chunk in _line_chunks(store, part):
        chunk.decode()  # Arrow would pass on invalid UTF-8
        if re.match(rb"\s*null", chunk) or re.search(rb"\n\s*null", chunk):
            raise ValueError("a line is `null`, expected an object")  # Arrow would crash
        read = pa.json.ReadOptions(block_size=max(1 << 20, len(chunk)))
        table = pa.json.read_json(io.BytesIO(chunk), read, parse)
        for batch in table.to_batches():
            yield fit_batch(batch, schema, parses_text=True)


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a value in JSON: times and decimals are strings there."""
    is_text = pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
    return pa.string() if is_text else kind


def _csv(store: Store, part: Part, schema: pa.Schema, context: SplitContext) -> Rows:
    file, options = _open(store, part), context.options
    _without_mark(file.peek(4)[:4])
    names = _header(file, options.delimiter) if options.header else schema.names
    check_names(schema.names, names)
    if names and not set(names) & set(schema.names):
        raise ValueError(
            f"expected a header with some of the columns {schema.names}, got {names}; see the "
            "options `delimiter` and `header`"
        )
    if not file.peek(1):
        return
    reader = pa.csv.open_csv(
        file,
        pa.csv.ReadOptions(column_names=names),
        pa.csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True),
        pa.csv.ConvertOptions(
            column_types={field.name: field.type for field in schema},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=schema.names,
            include_missing_columns=True,
        ),
    )
    yield from (fit_batch(batch, schema) for batch in reader)


def _header(file: Any, delimiter: str) -> list[str]:
    """Return the names in the first row that is not empty."""
    lines = (line.decode("utf-8-sig") for line in file)
    return next(filter(None, csv.reader(lines, delimiter=delimiter, strict=True)), [])


def _avro(store: Store, part: Part, schema: pa.Schema, context: SplitContext) -> Rows:
    with _open(store, part) as file:
        yield from avro.batches(file, schema, context.options.avroSchema)


def _parquet(store: Store, part: Part, schema: pa.Schema, context: SplitContext) -> Rows:
    file, filters = parquet_file(ObjectFile(store, part.info)), context.filters
    for batch in batches_of_file(file, schema.names, filters, part.start, part.end):
        yield fit_batch(batch, schema)


ROWS: dict[str, Callable[[Store, Part, pa.Schema, SplitContext], Rows]] = {
    "lines": _lines,
    "jsonl": _jsonl,
    "csv": _csv,
    "avro": _avro,
    "parquet": _parquet,
}


def rows_of(store: Store, part: Part, context: SplitContext) -> Rows:
    """Yield the rows of a part. Raises `ValueError` that names an object that cannot be read.

    With `deadLetters`, such a part is recorded and left out. So that no part is read by half, all
    of its rows are decoded before the first one is yielded.
    """
    check_flat(context.options.format, context.schema)
    schema = RowPacker(context.schema).arrow_schema
    if context.options.deadLetters is None:
        yield from _decoded(store, part, schema, context)
        return
    with tempfile.TemporaryFile() as file:
        try:
            with pa.ipc.new_stream(file, schema) as stream:
                for batch in _decoded(store, part, schema, context):
                    stream.write_batch(batch)
        except ValueError as error:
            _set_aside(part, str(error), context.options)
        else:
            file.seek(0)
            yield from pa.ipc.open_stream(file)


def _decoded(store: Store, part: Part, schema: pa.Schema, context: SplitContext) -> Rows:
    """Read what cannot be cut as a whole, with its first part. In CSV, values may have newlines."""
    info, form = part.info, context.options.format
    if not info.size:  # in some stores, an empty object stands for a folder
        return
    with _naming(info, context.options):
        if form in ("csv", "avro") or (form != "parquet" and _unpacking(info)):
            if part.start:
                return
            part = Part(info, 0, info.size)
        yield from ROWS[form](store, part, schema, context)


def _set_aside(part: Part, problem: str, options: OptionValues) -> None:
    """Record a part under a name that is the same whenever, and wherever, it is read again."""
    name = dead_letters.file_name(part.info.key, part.info.tag, part.start, part.end)
    place, position = f"{options.path}/{part.info.key}", (part.start, part.end)
    line = dead_letters.letter(FORMAT, position, problem, object=place)
    Store(options, options.deadLetters, make=True).write(name, line)
    what = f"bytes {part.start} to {part.end} of {place}"
    dead_letters.warn(FORMAT, what, f"{options.deadLetters}/{name}", problem)


@contextmanager
def _naming(info: ObjectInfo, options: OptionValues) -> Iterator[None]:
    """Raise errors about an object's content as `ValueError`, with its name."""
    try:
        yield
    except (ConnectionError, PermissionError, FileNotFoundError, ReplacedError):  # the store's
        raise
    except Exception as error:  # each codec has errors of its own
        is_ours = isinstance(error, MemoryError | RuntimeError)
        if is_ours and not isinstance(error, pa.ArrowException):
            raise
        problem = " ".join(str(error).split())
        text = f"cannot read `{info.key}` of {options.path} as {options.format}: {problem}"
        raise ValueError(text) from error


# ---- Their schema --------------------------------------------------------------------------------


def schema_of(options: OptionValues) -> StructType | str:
    """Return the schema of the first object, for a query without one. Raises `ValueError`."""
    if options.format == "lines":
        return "value STRING"
    if options.format in ("jsonl", "csv"):
        raise ValueError(
            f"format `{FORMAT}`: {options.format} has no column types; pass them, for example "
            '`.schema("id LONG, item STRING")`'
        )
    if options.avroSchema and options.format == "avro":
        return spark_schema(avro.arrow_schema(options.avroSchema))
    store = Store(options, options.path)
    objects = [info for info in Content(store).news() if matches(options, info) and info.size]
    if not objects:
        raise ValueError(
            f"format `{FORMAT}`: {options.path} has no objects yet, so their columns are unknown; "
            'pass them: `.schema("id LONG, item STRING")`'
        )
    first = min(objects)
    with _naming(first, options):
        if options.format == "avro":
            return spark_schema(avro.schema_of_file(_open(store, Part(first, 0, 0))))
        return spark_schema(schema_of_file(parquet_file(ObjectFile(store, first))))
