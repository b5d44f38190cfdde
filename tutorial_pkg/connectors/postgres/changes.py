"""A stream of changes: what was inserted, updated and deleted, from PostgreSQL's own log."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, cast

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.adapt import Transformer
from psycopg.pq import Format
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from tutorial_pkg.builder import OptionValues, Position, RowPacker, SourceBuilder, SplitContext
from tutorial_pkg.connectors.postgres import slot
from tutorial_pkg.connectors.postgres.columns import schema_of
from tutorial_pkg.connectors.postgres.connection import Connection, connect, persistent
from tutorial_pkg.connectors.postgres.options import FORMAT, READ
from tutorial_pkg.connectors.postgres.pgoutput import (
    Change,
    Decoder,
    Relation,
    Transaction,
    Tuple,
    Unchanged,
    Value,
)
from tutorial_pkg.connectors.postgres.table_reader import arrow_rows

Load = Callable[[bytes], Any]
Row = tuple[Any, ...] | None
TEXT_ARRAY = 1009  # the type `text[]`
PACKED = 10_000  # changes in a record batch, at most

# ---- What a row of this stream looks like --------------------------------------------------------


def changes_schema(options: OptionValues) -> StructType:
    """That of the table, three times. Raises `ValueError`."""
    if options.table is None or options.key or options.query:
        raise ValueError(
            f"format `{FORMAT}`: a stream of changes takes a `slot` and a `table`; `key` and "
            "`query` are for other ways of reading"
        )
    with connect(options) as database:
        columns = schema_of(database, options.table.sql)
        key = StructType([columns[name] for name in _primary_key(database, options)])
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


# ---- The functions of the source -----------------------------------------------------------------


def splits(context: SplitContext) -> dict[str, Position]:
    """A log has one part."""
    options = context.options
    if context.batch:
        raise ValueError(f"format `{FORMAT}`: a `slot` is for streams; `spark.read` takes none")
    return {options.slot: slot.prepare(options) if context.offset is None else 0}


def latest(context: SplitContext, split: str, start: int) -> int:
    return persistent(context.options, slot.end_of_log)


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    def look(database: Connection) -> int:
        return slot.next_position(database, context.options, start, end, rows)

    return persistent(context.options, look)


def commit(context: SplitContext, positions: dict[str, Position]) -> None:
    options, [position] = context.options, positions.values()
    persistent(options, lambda database: slot.let_go(database, options, int(position)))


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    if start < 0:
        yield from _snapshot(context, start, end)
    else:
        yield from _changes(context, start, end)


def _snapshot(context: SplitContext, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options, schema = context.options, context.schema
    columns, keys = _struct(schema, "after"), _struct(schema, "key").names
    number = sql.Identifier(slot.NUMBER)
    where = sql.SQL("{0} >= {1} AND {0} < {2}").format(number, start, min(0, end))
    packer = RowPacker(schema)
    for batch in arrow_rows(options, slot.snapshot_of(options).sql, columns, where):
        yield _as_changes(batch, keys, packer.arrow_schema)


def _struct(schema: StructType, column: str) -> StructType:
    return cast(StructType, schema[column].dataType)


def _as_changes(batch: pa.RecordBatch, keys: list[str], schema: pa.Schema) -> pa.RecordBatch:
    known = {
        "operation": pa.array(["snapshot"] * batch.num_rows),
        "key": batch.select(keys).to_struct_array(),
        "after": batch.to_struct_array(),
    }
    arrays = [
        known[field.name].cast(field.type)
        if field.name in known
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _changes(context: SplitContext, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options, packer = context.options, ChangePacker(context)
    with connect(options) as database:
        _check_there(database, options, start)
        decoded = Decoder().changes(slot.messages(database, options, end))
        changes = (each for each in decoded if start <= each[0].position < end)
        while some := list(itertools.islice(changes, PACKED)):
            yield packer.pack(some)


def _check_there(database: Connection, options: OptionValues, start: int) -> None:
    there = slot.confirmed(database, options)
    if there > start:
        raise RuntimeError(
            f"the slot `{options.slot}` has let go of changes that this query has not read: it is "
            f"at {there}, the query at {start}. Somebody has moved it, or made it anew. Start "
            "with a new checkpoint, with `snapshot` and a new slot to get the rows that are there"
        )


# ---- Values --------------------------------------------------------------------------------------


class ChangePacker:
    """Makes record batches of this stream: texts of the log to values, by the column's type."""

    def __init__(self, context: SplitContext) -> None:
        columns, key = _struct(context.schema, "after"), _struct(context.schema, "key")
        self._schema = RowPacker(context.schema).arrow_schema
        self._columns, self._key = RowPacker(columns), RowPacker(key)
        self._table = context.options.table
        self._kinds = {field.name: field.dataType for field in columns}
        self._key_places = [columns.names.index(name) for name in key.names]
        self._transformer = Transformer()
        self._relation: Relation | None = None
        self._loads: list[tuple[str, int, Load]] = []

    def pack(self, changes: Sequence[tuple[Transaction, Change]]) -> pa.RecordBatch:
        """Column by column. Raises `ValueError` that names the column of what does not fit."""
        rows = [self._rows(change) for _, change in changes]
        known = {
            "operation": [change.operation for _, change in changes],
            "key": _structs(self._key, [self._key_of(after or before) for before, after in rows]),
            "before": _structs(self._columns, [before for before, _ in rows]),
            "after": _structs(self._columns, [after for _, after in rows]),
            "position": [transaction.position for transaction, _ in changes],
            "transaction": [transaction.id for transaction, _ in changes],
            "committed": [transaction.committed for transaction, _ in changes],
        }
        arrays = [pa.array(known[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _rows(self, change: Change) -> tuple[Row, Row]:
        self._learn(change.relation)
        return self._values(change.before), self._values(change.after, change.before)

    def _key_of(self, row: Row) -> Row:
        return row and tuple(row[place] for place in self._key_places)

    def _learn(self, relation: Relation) -> None:
        """Where this stream's columns are in the table, which may have been altered."""
        if relation is self._relation:
            return
        missing = self._kinds.keys() - set(relation.columns)
        if missing:
            raise ValueError(
                f"table `{self._table}` has lost the columns {sorted(missing)} since this query "
                "was started; start it again, to read the table as it is now"
            )
        self._relation = relation
        places = {name: place for place, name in enumerate(relation.columns)}
        self._loads = [
            (name, places[name], self._load_of(kind, relation.types[places[name]]))
            for name, kind in self._kinds.items()
        ]

    def _load_of(self, kind: DataType, oid: int) -> Load:
        if isinstance(kind, StringType):
            return bytes.decode
        if isinstance(kind, DecimalType):
            return lambda data: Decimal(data.decode())
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType):
            oid = TEXT_ARRAY
        return self._transformer.get_loader(oid, Format.TEXT).load

    def _values(self, values: Tuple | None, older: Tuple | None = None) -> Row:
        if values is None:
            return None
        if older and Unchanged in values:
            pairs = zip(values, older, strict=True)
            values = [old if new is Unchanged and old is not None else new for new, old in pairs]
        return tuple(
            None if values[place] is None else self._value(name, load, values[place])
            for name, place, load in self._loads
        )

    def _value(self, name: str, load: Load, value: Value) -> Any:
        if not isinstance(value, bytes):
            raise ValueError(
                f"column `{name}` of an UPDATE of `{self._table}` was left alone, and is too large "
                "to be in the log all the same. ALTER TABLE … REPLICA IDENTITY FULL puts it there "
                "for later UPDATEs; to get past this one, begin with a new checkpoint and a new "
                "slot, with `snapshot`"
            )
        try:
            return load(value)
        except (ArithmeticError, ValueError, psycopg.DataError) as error:
            raise ValueError(f"column `{name}` cannot hold {value.decode()!r}: {error}") from error


def _structs(packer: RowPacker, rows: Sequence[Row]) -> pa.StructArray:
    """What is None becomes null, and not a row of nulls."""
    nulls = (None,) * len(packer.schema)
    batch = packer.pack([nulls if row is None else row for row in rows])
    missing = pa.array([row is None for row in rows])
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema), mask=missing)


# ---- The source ----------------------------------------------------------------------------------

source = (
    SourceBuilder.replayable(FORMAT, changes_schema, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .bound(bound)
    .commit(commit)
    .options(*READ)
    .build()
)
