"""A stream of changes: what was inserted, updated and deleted, from PostgreSQL's own log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.adapt import Transformer
from psycopg.pq import Format
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tutorial_pkg.builder import OptionValues, Position, RowPacker, SourceBuilder, SplitContext
from tutorial_pkg.connectors.postgres import slot
from tutorial_pkg.connectors.postgres.columns import oid_of, schema_of, type_of
from tutorial_pkg.connectors.postgres.connection import Connection, connect, persistent
from tutorial_pkg.connectors.postgres.identity import going_on, identified
from tutorial_pkg.connectors.postgres.options import FORMAT, READ, Table
from tutorial_pkg.connectors.postgres.pgoutput import (
    ABSENT,
    DELETE,
    INSERT,
    TRUNCATE,
    UNCHANGED,
    UPDATE,
    Changes,
    Decoder,
    Numbers,
)
from tutorial_pkg.connectors.postgres.table_reader import arrow_rows

Load = Callable[[bytes], Any]
PACKED = 10_000  # messages of the log that become a record batch, at most
PACKED_BYTES = 8 << 20
LETTERS = sorted((INSERT, UPDATE, DELETE, TRUNCATE))
OPERATIONS = pa.array(["delete", "insert", "truncate", "update"])
# What Arrow parses, from PostgreSQL's texts, to the same values as the client; or not at all.
PARSED = (
    BooleanType,
    IntegralType,
    FloatType,
    DoubleType,
    StringType,
    DateType,
    TimestampType,
    TimestampNTZType,
)

# ---- What a row of this stream looks like --------------------------------------------------------


def changes_schema(options: OptionValues) -> StructType:
    """That of the table, three times. Raises `ValueError`."""
    if options.table is None or options.key or options.query:
        raise ValueError(
            f"format `{FORMAT}`: a stream of changes takes a `slot` and a `table`; `key` and "
            "`query` are for other ways of reading"
        )
    with connect(options) as database:
        columns = _in_the_log(database, options)
        names = _primary_key(database, options)
    if not set(names) <= set(columns.names):
        raise ValueError(
            f"format `{FORMAT}`: a generated column is in the primary key of `{options.table}` "
            f"({', '.join(names)}), and the server's log has none"
        )
    key = StructType([columns[name] for name in names])
    schema = StructType().add("operation", StringType()).add("key", key)
    schema.add("before", columns).add("after", columns)
    return (
        schema.add("position", LongType())
        .add("transaction", LongType())
        .add("committed", TimestampType())
    )


def _primary_key(database: Connection, options: OptionValues) -> list[str]:
    text = """SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        AND attnum = ANY(indkey) WHERE indisprimary AND indrelid = %s::regclass ORDER BY attnum"""
    name = options.table.quoted
    found = [column for (column,) in database.execute(text, [name])]
    if not found:
        raise ValueError(
            f"format `{FORMAT}`: table `{options.table}` has no primary key, and changes of rows "
            "that nothing names are of no use: ALTER TABLE … ADD PRIMARY KEY (…)"
        )
    return found


def _in_the_log(database: Connection, options: OptionValues) -> StructType:
    """All columns but generated ones."""
    look = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attgenerated <> ''"
    schema = schema_of(database, options.table.sql)
    generated = {name for (name,) in database.execute(look, [options.table.quoted])}
    return StructType([field for field in schema if field.name not in generated])


# ---- The functions of the source -----------------------------------------------------------------


class Log:
    """The server's log as `splits` has just seen it: the connection of the source."""

    def __init__(self, options: OptionValues) -> None:
        self.end = 0


def splits(context: SplitContext) -> dict[str, Position]:
    """A log has one part: the table's place in the publication."""
    options = context.options
    if context.batch:
        raise ValueError(f"format `{FORMAT}`: a `slot` is for streams; `spark.read` takes none")
    first = slot.prepare(options) if context.offset is None else 0

    def look(database: Connection) -> int:
        """The end first: so the table was published up to there."""
        reached = max(map(int, (context.offset or {}).values()), default=first)
        context.connection.end = slot.end_of_log(database, reached)
        place = slot.published(database, options)
        _check_key(database, context)
        return place

    changed = (
        f"table `{options.table}` or the publication `{options.slot}` was made again, or the table "
        "was taken out of it and put in again"
    )
    return going_on(context, options.slot, persistent(options, look), first, changed)


def _check_key(database: Connection, context: SplitContext) -> None:
    """Raises `ValueError` for a key that names other rows than when the query was started."""
    known, now = _struct(context.schema, "key").names, _primary_key(database, context.options)
    if known != now:
        raise ValueError(
            f"table `{context.options.table}` has the primary key {now}, and it was {known} when "
            "this query was started: start it again, and have those who use `key` know the new one"
        )


def latest(context: SplitContext, split: str, start: int) -> int:
    end: int = context.connection.end
    return end


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    def look(database: Connection) -> int:
        with slot.published_throughout(database, context):
            return slot.next_position(database, context.options, start, end, rows)

    return persistent(context.options, look)


def commit(context: SplitContext, positions: dict[str, Position]) -> None:
    options, position = context.options, max(map(int, positions.values()))
    persistent(options, lambda database: slot.let_go(database, options, position))


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    if start < 0:
        yield from _snapshot(context, start, end)
    else:
        yield from _changes(context, start, end)


def _snapshot(context: SplitContext, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options, schema = context.options, context.schema
    columns, keys = _struct(schema, "after"), _struct(schema, "key").names
    copy = slot.snapshot_of(options).sql
    with connect(options) as database:
        then = {name: True for name in schema_of(database, copy).names if name != slot.NUMBER}
        now = schema_of(database, options.table.sql).names
    _check_columns(options.table, columns, then, now)
    known = StructType([field for field in columns if field.name in then])
    number = sql.Identifier(slot.NUMBER)
    where = sql.SQL("{0} >= {1} AND {0} < {2}").format(number, start, min(0, end))
    packer = RowPacker(schema)
    for batch in arrow_rows(options, copy, known, where):
        yield _as_changes(batch, keys, packer.arrow_schema)


def _struct(schema: StructType, column: str) -> StructType:
    return cast(StructType, schema[column].dataType)


def _as_changes(batch: pa.RecordBatch, keys: list[str], schema: pa.Schema) -> pa.RecordBatch:
    after = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema.field("after").type
    ]
    known = {
        "operation": pa.array(["snapshot"] * batch.num_rows),
        "key": batch.select(keys).to_struct_array(),
        "after": pa.StructArray.from_arrays(after, fields=list(schema.field("after").type)),
    }
    arrays = [
        known[field.name].cast(field.type)
        if field.name in known
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _changes(context: SplitContext, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options = context.options
    with connect(options) as database, slot.published_throughout(database, context):
        [oid, _] = identified(database, options.table)
        now = _in_the_log(database, options).names
        packer, decoder = ChangePacker(context, oid, now), Decoder(oid)
        for messages in _packs(slot.messages(database, options, start, end)):
            for changes in decoder.changes(messages):
                some = changes.between(start, end)
                if len(some.at):
                    yield packer.pack(some)


def _packs(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Some thousand at a time, or some megabytes: a message is a row, and may be large."""
    pack, size = list[bytes](), 0
    for message in messages:
        pack.append(message)
        size += len(message)
        if len(pack) == PACKED or size > PACKED_BYTES:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack


# ---- Values --------------------------------------------------------------------------------------


class ChangePacker:
    """Makes record batches of this stream: texts of the log to values, by the column's type."""

    def __init__(self, context: SplitContext, oid: int, now: list[str]) -> None:
        self._columns, self._key = _struct(context.schema, "after"), _struct(context.schema, "key")
        self._schema = RowPacker(context.schema).arrow_schema
        self._table, self._oid, self._now = context.options.table, oid, now
        self._transformer = Transformer()

    def pack(self, changes: Changes) -> pa.RecordBatch:
        """Column by column. Raises `ValueError` that names the column of what does not fit."""
        self._check(changes)
        before, after = (self._rows(changes, values) for values in changes.tuples())
        known = {
            "operation": OPERATIONS.take(pa.array(np.searchsorted(LETTERS, changes.kinds))),
            "key": self._keys(before, after),
            "before": before,
            "after": after,
            "position": pa.array(changes.positions),
            "transaction": pa.array(changes.ids),
            "committed": pa.array(changes.committed),
        }
        arrays = [known[field.name].cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _check(self, changes: Changes) -> None:
        """Whether this stream's columns are in the table, which may have been altered."""
        if (changes.oids() != self._oid).any():
            raise RuntimeError(
                f"the log has changes of a table that is not the `{self._table}` of now: this one "
                "was made again, or it is a partition, and the publication was made without "
                "`publish_via_partition_root`. Start anew: a new checkpoint and a new `slot`"
            )
        kinds = {field.name: field.dataType for field in self._columns}
        relation = zip(changes.relation.columns, changes.relation.types, strict=True)
        then = {name: name not in kinds or _holds(kinds[name], oid) for name, oid in relation}
        _check_columns(self._table, self._columns, then, self._now)

    def _rows(self, changes: Changes, values: Numbers) -> pa.StructArray:
        """A change without a row has null, and not a row of nulls."""
        kind, missing = self._schema.field("after").type, values[0, 0] == ABSENT
        if missing.all():
            return pa.nulls(len(missing), kind)
        places = {name: place for place, name in enumerate(changes.relation.columns)}
        arrays = [
            self._array(field, changes, values[places[field.name]])
            if field.name in places
            else pa.nulls(len(missing), kind.field(field.name).type)
            for field in self._columns
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(missing))

    def _keys(self, before: pa.StructArray, after: pa.StructArray) -> pa.StructArray:
        """Of the row after the change, or of the one before, if there is no other."""
        is_after, is_row = after.is_valid(), pc.or_(after.is_valid(), before.is_valid())
        arrays = [
            pc.if_else(is_after, after.field(name), before.field(name)) for name in self._key.names
        ]
        if any(pc.any(pc.and_(is_row, array.is_null())).as_py() for array in arrays):
            raise ValueError(
                f"a change in `{self._table}` does not tell the primary key of its row: it has "
                "another one now, or its REPLICA IDENTITY is another index (ALTER TABLE … REPLICA "
                "IDENTITY DEFAULT). Begin with a new checkpoint and a new slot, with `snapshot`"
            )
        fields = list(self._schema.field("key").type)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.invert(is_row))

    def _array(self, field: StructField, changes: Changes, values: Numbers) -> pa.Array:
        if UNCHANGED in values[0]:
            raise ValueError(
                f"column `{field.name}` of an UPDATE of `{self._table}` was left alone, and is too "
                "large to be in the log all the same. ALTER TABLE … REPLICA IDENTITY FULL puts it "
                "there for later UPDATEs; to get past this one, begin with a new checkpoint and a "
                "new slot, with `snapshot`"
            )
        texts, packer = changes.texts(values), RowPacker(StructType([field]))
        if isinstance(field.dataType, PARSED):
            with contextlib.suppress(pa.ArrowInvalid):  # then the client says which value it is
                return _parsed(texts, packer.arrow_schema.types[0])
        load = self._load_of(field.dataType)
        loaded = [None if text is None else _loaded(field.name, load, text) for text in texts]
        return packer.pack(list(zip(loaded, strict=True))).column(0)

    def _load_of(self, kind: DataType) -> Load:
        """By what the column is in Spark: the log names a domain, and not what it is made of."""
        if isinstance(kind, StringType):
            return bytes.decode
        return self._transformer.get_loader(oid_of(kind), Format.TEXT).load


def _check_columns(
    table: Table, columns: StructType, then: Mapping[str, bool], now: Collection[str]
) -> None:
    """Whether old rows can be told in today's columns. Raises `ValueError`.

    `then` are the columns that the rows have, and whether their types will do; `now` are those of
    the table. One that it has got since is null, but not if it may be another one's new name.
    """
    only_added = then.keys() <= {*now}
    wrong = [name for name in columns.names if not then.get(name, only_added and name in now)]
    if wrong:
        raise ValueError(
            f"table `{table}` has lost the columns {wrong} since this query was started, or they "
            "have other types; start it again, to read the table as it is now. If it was altered "
            "before that start, rows from before cannot be read any more: begin with a new "
            "checkpoint and a new slot, with `snapshot`"
        )


def _parsed(texts: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """By Arrow. Raises its `ArrowInvalid`."""
    array = pa.array(texts, pa.string())
    return pc.equal(array, "t") if pa.types.is_boolean(kind) else array.cast(kind)


def _loaded(name: str, load: Load, text: bytes) -> Any:
    try:
        return load(text)
    except (ArithmeticError, ValueError, psycopg.DataError) as error:
        raise ValueError(f"column `{name}` cannot hold {text.decode()!r}: {error}") from error


def _holds(kind: DataType, oid: int) -> bool:
    """Whether a column's values come with the type that they have in Spark; any can be a text."""
    known = type_of(oid) or kind
    if isinstance(known, ArrayType) and isinstance(kind, ArrayType):
        known, kind = known.elementType, kind.elementType
    return isinstance(kind, StringType) or type(known) is type(kind)


# ---- The source ----------------------------------------------------------------------------------

source = (
    SourceBuilder.replayable(FORMAT, changes_schema, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .connect(Log)
    .bound(bound)
    .commit(commit)
    .options(*READ)
    .build()
)
