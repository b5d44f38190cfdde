"""Source for a stream of changes: inserts, updates and deletes, from the server's log."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.adapt import Transformer
from psycopg.pq import Format
from pyspark.sql.types import ArrayType, BinaryType, DecimalType, StructField, StructType

from tutorial_pkg.builder import (
    OptionValues,
    RowPacker,
    SourceBuilder,
    Split,
    SplitContext,
)
from tutorial_pkg.connectors.arrow_columns import fit_batch
from tutorial_pkg.connectors.postgres import connection as pg
from tutorial_pkg.connectors.postgres import pgoutput, slot
from tutorial_pkg.connectors.postgres.columns import oid_of, schema_of
from tutorial_pkg.connectors.postgres.options import FORMAT, READ
from tutorial_pkg.connectors.postgres.tables import arrow_rows

KINDS = pa.array([pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE, pgoutput.TRUNCATE], pa.int64())
OPERATIONS = pa.array(["insert", "update", "delete", "truncate"])
# Arrow parses PostgreSQL's texts of all other types to the same values as the client, or refuses.
PARSED_BY_CLIENT = (ArrayType, BinaryType, DecimalType)


def changes_schema(options: OptionValues) -> StructType:
    """Return the table's columns as `key`, `before` and `after`. Raises `ValueError`."""
    if options.table is None or options.key or options.query:
        raise ValueError(
            f"format `{FORMAT}`: a stream of changes needs a `slot` and a `table`, without `key` "
            "and `query`"
        )
    look = """SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        AND attnum = ANY(indkey[:indnkeyatts - 1])
        WHERE indisprimary AND indrelid = %s::regclass ORDER BY attnum"""
    with pg.connect(options) as database:
        columns = _logged_columns(database, options)
        key = [name for (name,) in database.execute(look, [options.table.quoted])]
    if not key or not set(key) <= set(columns.names):
        raise ValueError(
            f"format `{FORMAT}`: table `{options.table}` needs a primary key without generated "
            f"columns, got {key}: ALTER TABLE … ADD PRIMARY KEY"
        )
    schema = StructType().add("operation", "string")
    schema.add("key", StructType([columns[name] for name in key]))
    schema.add("before", columns).add("after", columns)
    return schema.add("position", "long").add("transaction", "long").add("committed", "timestamp")


def _logged_columns(database: pg.Connection, options: OptionValues) -> StructType:
    look = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attgenerated <> ''"
    generated = {name for (name,) in database.execute(look, [options.table.quoted])}
    schema = schema_of(database, options.table.sql)
    return StructType([field for field in schema if field.name not in generated])


def _struct(context: SplitContext, column: str) -> StructType:
    return cast(StructType, context.schema[column].dataType)


def _check_columns(context: SplitContext, then: Collection[str], now: Collection[str]) -> None:
    """Raise `ValueError` unless old rows can be read with the query's columns.

    Columns that were added later read as null, unless they may be renamed ones. `then` and `now`
    are the table's columns when the rows were written, and at present.
    """
    missing = set(_struct(context, "after").names).difference(then)
    if missing and not missing.union(then) <= set(now):
        raise ValueError(
            f"columns {sorted(missing)} of table `{context.options.table}` were dropped, added or "
            "renamed; start the query again to use the present ones. If rows from before that are "
            "unread, start over with a new checkpoint and a new slot, with `snapshot`"
        )


def look(context: SplitContext) -> dict[str, Split]:
    """Return one split, the log; its identity is the table's entry in the publication."""
    options, database, offset = context.options, context.connection, context.offset
    if context.batch:
        raise ValueError(f"format `{FORMAT}`: a `slot` is for streams; `spark.read` takes none")
    with pg.locks_in_time(options):
        start = max(map(int, offset.values())) if offset else slot.prepare(database, options)
        # First the end, so that the table was published up to there.
        [end] = next(database.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint"))
        entry = slot.published(database, options)
    name = next(iter(offset or ()), options.slot)
    return {name: Split(start, int(end), str(entry))}


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    return _snapshot(context, start, end) if start < 0 else _changes(context, start, end)


def _snapshot(context: SplitContext, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of the snapshot as changes; columns that were added later are null."""
    options, schema = context.options, RowPacker(context.schema).arrow_schema
    copy, number = slot.snapshot_of(options), sql.Identifier(slot.NUMBER)
    copied = set(schema_of(context.connection, copy).names) - {slot.NUMBER}
    _check_columns(context, copied, schema_of(context.connection, options.table.sql).names)
    columns = [field for field in _struct(context, "after") if field.name in copied]
    where = sql.SQL("{0} >= {1} AND {0} < {2}").format(number, start, min(0, end))
    for batch in arrow_rows(options, copy, StructType(columns), where):
        key, after = (fit_batch(batch, _fields(schema, name)) for name in ("key", "after"))
        known = {
            "operation": pa.repeat("snapshot", batch.num_rows),
            "key": key.to_struct_array(),
            "after": after.to_struct_array(),
        }
        yield fit_batch(pa.RecordBatch.from_pydict(known), schema)


def _fields(schema: pa.Schema, column: str) -> pa.Schema:
    return pa.schema(list(schema.field(column).type))


def _changes(context: SplitContext, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options, database = context.options, context.connection
    oid, _ = pg.resolve(database, options.table)
    packer = ChangePacker(context, oid, _logged_columns(database, options).names)
    decoder = pgoutput.Decoder(oid, start, end)
    for messages in slot.messages(database, options, start, end):
        yield from map(packer.pack, decoder.changes(messages))


class ChangePacker:
    """Makes record batches of changes: converts the log's texts by the types of the columns."""

    def __init__(self, context: SplitContext, oid: int, now: Collection[str]) -> None:
        self._context, self._oid, self._now = context, oid, now
        self._table, self._transformer = context.options.table, Transformer()
        self._schema = RowPacker(context.schema).arrow_schema

    def pack(self, changes: pgoutput.Changes) -> pa.RecordBatch:
        """Convert column by column. Raises `ValueError` that names the column."""
        if (changes.oids() != self._oid).any():
            raise RuntimeError(
                f"the log has changes of another table than the present `{self._table}`: it was "
                "re-created, or the publication has several tables, or partitions without "
                "`publish_via_partition_root`. Start over with a new checkpoint and a new `slot`"
            )
        _check_columns(self._context, changes.columns, self._now)
        before, after = (self._rows(changes, values) for values in changes.tuples())
        known = {
            "operation": OPERATIONS.take(pc.index_in(pa.array(changes.kinds), KINDS)),
            "key": self._keys(before, after),
            "before": before,
            "after": after,
            "position": pa.array(changes.positions),
            "transaction": pa.array(changes.ids),
            "committed": pa.array(changes.committed),
        }
        arrays = [known[field.name].cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _rows(self, changes: pgoutput.Changes, values: pgoutput.Numbers) -> pa.StructArray:
        """Return the rows as structs; null, not a struct of nulls, for a change without a row."""
        kind, missing = self._schema.field("after").type, values[0, 0] == pgoutput.ABSENT
        if missing.all():
            return pa.nulls(len(missing), kind)
        by_name = dict(zip(changes.columns, values, strict=True))
        arrays = [
            self._array(field, changes, by_name[field.name])
            if field.name in by_name
            else pa.nulls(len(missing), kind.field(field.name).type)
            for field in _struct(self._context, "after")
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(missing))

    def _keys(self, before: pa.StructArray, after: pa.StructArray) -> pa.StructArray:
        """Take the key of the row after the change, or of the row before a delete."""
        is_after, is_row = after.is_valid(), pc.or_(after.is_valid(), before.is_valid())
        fields = list(self._schema.field("key").type)  # `coalesce` of whole rows is slow
        arrays = [pc.if_else(is_after, after.field(f.name), before.field(f.name)) for f in fields]
        if any(pc.any(pc.and_(is_row, array.is_null())).as_py() for array in arrays):
            raise ValueError(
                f"a change of `{self._table}` lacks the primary key of its row: the key was "
                "altered, or the identity is a different index (ALTER TABLE … REPLICA IDENTITY "
                "DEFAULT). Start over with a new checkpoint and a new slot, with `snapshot`"
            )
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.invert(is_row))

    def _array(
        self, field: StructField, changes: pgoutput.Changes, values: pgoutput.Numbers
    ) -> pa.Array:
        if pgoutput.UNCHANGED in values[0]:
            raise ValueError(
                f"column `{field.name}` is missing in an UPDATE of `{self._table}`: the log leaves "
                "out large values that didn't change. For later UPDATEs, and if the table has no "
                "generated columns: ALTER TABLE … REPLICA IDENTITY FULL. To get past this one, "
                "start over with a new checkpoint and a new slot, with `snapshot`"
            )
        texts, kind = changes.texts(values), self._schema.field("after").type.field(field.name).type
        try:
            if not isinstance(field.dataType, PARSED_BY_CLIENT):
                array = pa.array(texts, pa.string())
                return pc.equal(array, "t") if pa.types.is_boolean(kind) else array.cast(kind)
            # By the column's Spark type: the log has only the name of a domain.
            load = self._transformer.get_loader(oid_of(field.dataType), Format.TEXT).load
            rows = [(None if text is None else load(text),) for text in texts]
        except (ArithmeticError, ValueError, psycopg.DataError) as error:
            raise ValueError(f"column `{field.name}` cannot hold a value: {error}") from error
        return RowPacker(StructType([field])).pack(rows).column(0)


source = (
    SourceBuilder.replayable(FORMAT, changes_schema, look=look, read=read)
    .connect(pg.connect)
    .close(pg.Connection.close)
    .bound(slot.bound)
    .commit(slot.commit)
    .retry(transient=pg.is_transient, option="waitSeconds")
    .options(*READ)
    .build()
)
