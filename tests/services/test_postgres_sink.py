"""The sink against a real server: its functions called as the builder calls them."""

from __future__ import annotations

import re
import uuid
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import Any, LiteralString

import psycopg
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.conninfo import make_conninfo
from psycopg.pq import Format
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from tests.properties import holds, same, typed
from tests.services.test_postgres_read import Stream
from tests.services.test_postgres_read import batch as read_batch
from tests.soak import few_or_many
from tutorial_pkg.builder import BatchContext, Options, RowPacker, SinkContext
from tutorial_pkg.connectors.postgres.options import FORMAT, WRITE
from tutorial_pkg.connectors.postgres.sink import (
    Stage,
    Staged,
    discard,
    publish,
    sink,
    stage_prefix,
)

QUERY = "6d1f1f36-8a50-4b7e-9a0e-2b6c0d8f5a11"
Database = psycopg.Connection[Any]
LEFT_OVER = 3_000  # tables; the server has room for the locks of some 2,500


def options(url: str, **given: str) -> Any:
    return Options(FORMAT, WRITE).parse({"url": url, "table": "t", "waitSeconds": "5", **given})


def stage(values: Any, rows: dict[str, Any] | pa.RecordBatch, index: int = 0) -> Staged | None:
    batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pydict(rows)
    with closing(Stage(SinkContext(QUERY, 0, index, values))) as task:
        task.receive_batch(batch)
        return task.flush()


def write(values: Any, batch: int, *tasks: dict[str, Any]) -> None:
    staged = [stage(values, rows, index) for index, rows in enumerate(tasks)]
    publish(BatchContext(QUERY, batch, values), staged)


def rows(database: Database, text: Any = "SELECT * FROM t ORDER BY 1, 2") -> list[tuple[Any, ...]]:
    return database.execute(text).fetchall()


def stages(database: Database) -> list[Any]:
    return rows(database, "SELECT relname FROM pg_class WHERE relname LIKE 'spark_stage%'")


# ---- Exactly once --------------------------------------------------------------------------------


def test_a_batch_is_appended_once_however_often_it_comes(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    for batch in (0, 0, 1, 1):
        write(
            options(url), batch, {"number": [batch], "name": ["a"]}, {"number": [7], "name": [""]}
        )
    assert rows(database) == [(0, "a"), (1, "a"), (7, ""), (7, "")]
    assert stages(database) == []


def test_a_batch_without_rows_changes_nothing(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    write(options(url), 0, {"number": pa.array([], pa.int32()), "name": pa.array([], pa.string())})
    assert rows(database) == []


def test_a_batch_that_the_table_refuses_leaves_nothing(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text CHECK (name <> 'no'))")
    with pytest.raises(psycopg.errors.CheckViolation):
        write(options(url), 0, {"number": [1], "name": ["yes"]}, {"number": [2], "name": ["no"]})
    assert rows(database) == []
    discard(BatchContext(QUERY, 0, options(url)), [])
    assert stages(database) == []
    write(options(url), 0, {"number": [1], "name": ["yes"]})  # the same number is free again
    assert rows(database) == [(1, "yes")]


def test_a_checkpoint_that_was_set_back_is_an_error(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    write(options(url), 4, {"number": [1, 2], "name": ["a", "b"]})
    for batch in (3, 4):
        with pytest.raises(RuntimeError, match=r"batch 4 of this query with 2 rows, and batch \d"):
            write(options(url), batch, {"number": [1], "name": ["a"]})
    assert len(rows(database)) == 2


def test_a_task_whose_target_is_in_a_schema_needs_no_other(url: str, database: Database) -> None:
    database.execute('CREATE SCHEMA "My %s"; CREATE TABLE "My %s"."T.""1""" (n int)')
    name = '"My %s"."T.""1"""'
    write(options(url, table=name), 0, {"n": [1]})
    write(options(url, table=name), 0, {"n": [1]})
    assert rows(database, 'SELECT * FROM "My %s"."T.""1"""') == [(1,)]
    assert rows(database, "SELECT relname FROM pg_class WHERE relname LIKE 'spark%stage%'") == []


def test_rows_that_a_crash_of_the_server_took_are_noticed(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    staged = stage(options(url), {"n": [1]})
    assert staged
    database.execute(f"TRUNCATE {staged.table}".encode())  # as recovery does
    with pytest.raises(RuntimeError, match="crashed after rows were staged"):
        publish(BatchContext(QUERY, 0, options(url)), [staged])
    write(options(url), 0, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


def test_rows_that_were_staged_before_a_column_was_altered_are_staged_again(
    url: str, database: Database
) -> None:
    """A `timestamp` is another moment in each zone, and only a task knows the right one; what was
    rounded for a scale has lost digits that another scale keeps."""
    database.execute("CREATE TABLE t (at timestamp, price money, n numeric(4,1))")
    given = {"at": pa.array([0], pa.timestamp("us", "Europe/Berlin")), "price": [1], "n": ["1.25"]}
    staged = stage(options(url), given)
    database.execute("ALTER TABLE t ALTER at TYPE timestamptz, ALTER n TYPE numeric(5,2)")
    with pytest.raises(RuntimeError, match=r"columns \['at', 'n'\] of `t` were altered after rows"):
        publish(BatchContext(QUERY, 0, options(url)), [staged])
    assert rows(database, "SELECT * FROM t") == []
    write(options(url), 0, given)
    text = "SELECT extract(epoch FROM at)::int, n FROM t"
    assert rows(database, text) == [(0, Decimal("1.25"))]


def test_a_repeated_batch_is_known_however_its_table_is_called(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (n int); CREATE SCHEMA extra")
    write(options(url), 0, {"n": [0]})
    database.execute("CREATE TABLE extra.spark_batches (LIKE spark_batches)")
    database.execute("CREATE SCHEMA others; CREATE TABLE others.spark_batches (target int)")
    for batch, name in enumerate(("public.t", '"t"', "t")):
        for _ in range(2):
            write(options(url, table=name), batch, {"n": [batch]})
    elsewhere = make_conninfo(url, options="-c search_path=extra,public")
    write(options(elsewhere), 2, {"n": [2]})
    assert rows(database, "SELECT * FROM t ORDER BY 1") == [(0,), (1,), (2,)]


def test_a_repeated_batch_of_a_table_that_was_renamed(url: str, database: Database) -> None:
    """Its note names it as it was called; a later batch cannot be there twice."""
    database.execute("CREATE TABLE t (n int); CREATE SCHEMA other")
    write(options(url), 0, {"n": [0]})
    database.execute("ALTER TABLE t SET SCHEMA other")
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"batch 0 .* is in the table `public\.t`.*UPDATE sp"
        ):
            write(options(url, table="other.t"), 0, {"n": [0]})
    for _ in range(2):
        write(options(url, table="other.t"), 1, {"n": [1]})
    assert rows(database, "SELECT * FROM other.t ORDER BY 1") == [(0,), (1,)]


@pytest.mark.parametrize(
    "leaves_out",
    [
        "CREATE RULE odd AS ON INSERT TO t WHERE NEW.n = 1 DO INSTEAD NOTHING",
        """CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN IF NEW.n = 1 THEN RETURN NULL; END IF; RETURN NEW; END';
        CREATE TRIGGER odd BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION odd()""",
    ],
)
def test_rows_that_the_table_leaves_out_are_reported(
    url: str, database: Database, caplog: pytest.LogCaptureFixture, leaves_out: str
) -> None:
    database.execute(f"CREATE TABLE t (n int); {leaves_out}".encode())
    write(options(url), 0, {"n": [1, 2]}, {"n": [3]})
    assert rows(database, "SELECT n FROM t ORDER BY 1") == [(2,), (3,)]
    assert "table `t` has taken 2 of 3 rows; see its triggers and rules" in caplog.messages


def test_more_stages_are_left_over_than_the_server_can_lock(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    for first in range(0, LEFT_OVER, 500):
        with database.transaction():
            for number in range(first, first + 500):
                name = f"{stage_prefix(QUERY)}{number}"
                database.execute(f"CREATE UNLOGGED TABLE {name} (n int)".encode())
    write(options(url), 0, {"n": [1]})
    assert stages(database) == []


def test_a_lock_is_waited_for_with_a_bound(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    text = "a lock on table `t` for more than 1 s (option `waitSeconds`); see the view `pg_locks`"
    for lock in ("ACCESS EXCLUSIVE", "SHARE"):  # against the task, and only against `publish`
        with psycopg.connect(url) as other:
            other.execute(f"LOCK TABLE t IN {lock} MODE".encode())
            with pytest.raises(TimeoutError, match=re.escape(text)):
                write(options(url, waitSeconds="1"), 0, {"n": [1]})
    write(options(url), 0, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


# ---- By key --------------------------------------------------------------------------------------


def test_upsert_replaces_by_key(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (host text, core int, load float, PRIMARY KEY (host, core))")
    upsert = options(url, mode="upsert", key="host, core")
    write(upsert, 0, {"host": ["a", "b"], "core": [0, 0], "load": [0.1, 0.2]})
    write(upsert, 1, {"load": [0.5], "core": [0], "host": ["a"]})
    assert rows(database) == [("a", 0, 0.5), ("b", 0, 0.2)]


def test_upsert_of_nothing_but_the_key(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int PRIMARY KEY)")
    for batch in (0, 1):
        write(options(url, mode="upsert", key="n"), batch, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


def test_a_table_that_others_inherit_from_has_not_all_keys(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int PRIMARY KEY); CREATE TABLE heir () INHERITS (t)")
    database.execute("INSERT INTO heir VALUES (1)")
    with pytest.raises(ValueError, match="other tables inherit from `t`, and no unique index has"):
        write(options(url, mode="upsert", key="n"), 0, {"n": [1]})
    write(options(url), 0, {"n": [2]})
    assert rows(database, "SELECT n FROM t ORDER BY 1") == [(1,), (2,)]


def test_a_key_with_nulls_replaces_rows_or_is_refused(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int UNIQUE, x text UNIQUE NULLS NOT DISTINCT)")
    upsert, row = options(url, mode="upsert", key="n"), {"n": pa.nulls(1, pa.int32()), "x": ["a"]}
    with pytest.raises(
        ValueError, match=r"columns \['n'\] of the key have nulls, and a row with one"
    ):
        write(upsert, 0, row)
    assert rows(database) == []
    database.execute("ALTER TABLE t DROP CONSTRAINT t_n_key, ADD UNIQUE NULLS NOT DISTINCT (n)")
    for batch in (1, 2):
        write(upsert, batch, row)
    assert rows(database) == [(None, "a")]


@pytest.mark.parametrize(
    "index",
    [
        "CREATE UNIQUE INDEX other ON t (n) NULLS NOT DISTINCT WHERE x = 'rare'",
        "CREATE UNIQUE INDEX other ON t (n) WHERE x <> 'NULLS NOT DISTINCT'",
        "CREATE UNIQUE INDEX other ON t (n) NULLS NOT DISTINCT; UPDATE pg_index SET indisvalid = "
        "false, indisready = false WHERE indexrelid = 'other'::regclass",  # as if making it failed
    ],
)
def test_an_index_of_some_rows_does_not_tell_that_nulls_are_equal(
    url: str, database: Database, index: LiteralString
) -> None:
    database.execute("CREATE TABLE t (n int UNIQUE, x text)")
    database.execute(index)
    row = {"n": pa.nulls(1, pa.int32()), "x": ["a"]}
    with pytest.raises(ValueError, match=r"columns \['n'\] of the key have nulls"):
        write(options(url, mode="upsert", key="n"), 0, row)
    assert rows(database) == []


def test_merge_with_an_expression_counts_once(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (word text PRIMARY KEY, count bigint, longest int)")
    merge = "count = old.count + excluded.count, longest = greatest(old.longest, excluded.longest)"
    values = options(url, mode="merge", key="word", merge=merge)
    for batch in (0, 1, 1):
        write(values, batch, {"word": ["a", "b"], "count": [1, 2], "longest": [batch, 5 - batch]})
    assert rows(database) == [("a", 2, 1), ("b", 4, 5)]


def test_two_rows_for_one_key_in_a_batch_are_refused(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int PRIMARY KEY, name text)")
    with pytest.raises(ValueError, match=r"several rows with the same key \(n\)"):
        write(options(url, mode="upsert", key="n"), 0, *[{"n": [1], "name": [x]} for x in "ab"])
    assert rows(database) == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"mode": "upsert"},
            "option `key` is missing; it is needed for mode=upsert and mode=merge",
        ),
        ({"key": "n"}, "option `key` is only for mode=upsert and mode=merge, got mode=append"),
        ({"mode": "merge", "key": "n"}, "option `merge` is missing; it is needed for mode=merge"),
        ({"table": "a.b.c"}, "option `table` must be `name`, `schema.name` or .*, got 'a.b.c'"),
        ({"mode": "add"}, "option `mode` must be append, upsert or merge, got 'add'"),
        ({"mode": "upsert", "key": "a,,b"}, "option `key` must be names with commas between them"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        sink({"table": "t", **given}).streamWriter(StructType(), False)


def test_a_variant_is_not_written_as_its_bytes() -> None:
    schema = StructType().add("v", ArrayType(VariantType()))
    with pytest.raises(ValueError, match=r"column `v` has a VARIANT, .* it with `to_json`"):
        sink({"url": "postgresql://nowhere", "table": "t"}).streamWriter(schema, False)


def test_complete_is_for_upsert_only() -> None:
    given = {"url": "postgresql://nowhere", "table": "t"}
    with pytest.raises(ValueError, match="the output mode `complete` brings all rows again"):
        sink(given).streamWriter(StructType(), True)
    assert sink({**given, "mode": "upsert", "key": "n"}).streamWriter(StructType(), True)


# ---- `df.write` ----------------------------------------------------------------------------------


def test_a_job_adds_or_replaces_at_one_stroke_and_leaves_nothing_behind(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    for overwrite, expected in ((False, 2), (False, 4), (True, 2)):
        context = BatchContext(QUERY, 0, options(url), streaming=False, overwrite=overwrite)
        tasks = [{"number": [1], "name": ["a"]}, {"number": [2], "name": ["b"]}]
        publish(context, [stage(options(url), rows, index) for index, rows in enumerate(tasks)])
        assert (len(rows(database)), stages(database)) == (expected, [])
    assert rows(database, "SELECT to_regclass('spark_batches')") == [(None,)]
    publish(BatchContext(QUERY, 0, options(url), streaming=False, overwrite=True), [None])
    assert rows(database) == []


# ---- Types ---------------------------------------------------------------------------------------

NOW = datetime(2026, 11, 22, 1, 2, 3, 456789)
LONG_AGO = datetime(1874, 12, 7, 18, 40, tzinfo=UTC)  # when New York was 4:56:02 behind
SPAN, SPAN_TEXT = timedelta(days=-1, seconds=5), "-1 days 5.000000 seconds"
NESTED = pa.struct(
    {
        "m": pa.map_(pa.string(), pa.int64()),
        "s": pa.duration("us"),
        "v": pa.list_(pa.binary()),
    }
)
VALUES: list[tuple[str, Any, Any]] = [
    ("smallint", pa.array([1, None, -32768], pa.int64()), [1, None, -32768]),
    ("bigint", pa.array([2**63 - 1, None], pa.int64()), [2**63 - 1, None]),
    ("boolean", pa.array([True, False, None]), [True, False, None]),
    ("real", pa.array([1.5, None], pa.float32()), [1.5, None]),
    ("float8", pa.array([1e300, float("inf"), -0.0]), [1e300, float("inf"), -0.0]),
    ("numeric(10,2)", pa.array([Decimal("1.50"), None]), [Decimal("1.50"), None]),
    ("text", pa.array(["", None, "a\"b\\.\n\\.\n,'", "\\N", "é😀"]), None),
    ("varchar(3)", pa.array(["abc"]), ["abc"]),
    ("bytea", pa.array([b"\x00\xff\\", b"", None]), [b"\x00\xff\\", b"", None]),
    ("date", pa.array([date(2026, 2, 28), None]), [date(2026, 2, 28), None]),
    ("timestamp", pa.array([NOW, None], pa.timestamp("us")), [NOW, None]),
    ("timestamptz", pa.array([NOW], pa.timestamp("us", "UTC")), [NOW.replace(tzinfo=UTC)]),
    ("timestamptz", pa.array([LONG_AGO, None], pa.timestamp("us", "America/New_York")),
     [LONG_AGO, None]),
    ("interval", pa.array([timedelta(days=-1, seconds=5)]), [timedelta(days=-1, seconds=5)]),
    ("jsonb", pa.array(['{"a": [1, null]}', None]), [{"a": [1, None]}, None]),
    ("jsonb", pa.array([{"a": 1, "b": "x"}, None]), [{"a": 1, "b": "x"}, None]),
    ("jsonb", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [{"k": 1}]),
    ("uuid", pa.array([QUERY]), [uuid.UUID(QUERY)]),
    ("int[]", pa.array([[1, None], [], None]), [[1, None], [], None]),
    ("text[]", pa.array([["a,b", 'c"\\', "NULL", "", None]]), None),
    ("numeric[]", pa.array([[Decimal("1.5")]]), [[Decimal("1.5")]]),
    ("timestamptz[]", pa.array([[NOW]], pa.list_(pa.timestamp("us", "UTC"))), None),
    ("int[]", pa.array([[[1, 2], [3, 4]], []]), [[[1, 2], [3, 4]], []]),
    ("bytea[]", pa.array([[b"\x00\xff"]]), [[b"\x00\xff"]]),
    ("boolean[]", pa.array([[True, None]]), [[True, None]]),
    ("jsonb", pa.array([{"m": [("a", 1)]}], NESTED), [{"m": {"a": 1}, "s": None, "v": None}]),
    ("jsonb", pa.array([{"s": SPAN}], NESTED), [{"m": None, "s": SPAN_TEXT, "v": None}]),
    ("jsonb", pa.array([[{"m": [("a", None)], "v": [b"x"]}, None]], pa.list_(NESTED)),
     [[{"m": {"a": None}, "s": None, "v": ["\\x78"]}, None]]),
    ("jsonb[]", pa.array([[[("a", 1.5)], None]], pa.list_(pa.map_(pa.string(), pa.float64()))),
     [[{"a": 1.5}, None]]),
    ("json", pa.array([[[1, None], []]]), [[[1, None], []]]),
    ("jsonb", pa.array([[(NOW.date(), 1)]], pa.map_(pa.date32(), pa.int64())), [{"2026-11-22": 1}]),
    ("text[]", pa.array([["a", None]]), [["a", None]]),
    ("interval[]", pa.array([[SPAN]]), [[SPAN]]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "expected"), VALUES, ids=lambda value: str(value)[:12])
def test_values_arrive_as_they_were(
    url: str, database: Database, kind: str, array: pa.Array, expected: list[Any] | None
) -> None:
    database.execute(f"CREATE TABLE t (place int, value {kind})".encode())
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(array))), array], ["place", "value"])
    publish(BatchContext(QUERY, 0, options(url)), [stage(options(url), batch)])
    database.execute("SET TimeZone = 'UTC'")
    found = [value for _, value in rows(database, "SELECT * FROM t ORDER BY place")]
    assert found == (array.to_pylist() if expected is None else expected)


def test_values_arrive_as_they_were_however_the_database_is_set_up(unusual_url: str) -> None:
    columns = {
        "x": ("text", pa.array(["Zürich", "\\"]), ["Zürich", "\\"]),
        "y": ("bytea", pa.array([b"\0\xff", b"\\"]), [b"\0\xff", b"\\"]),
        "f": ("float8", pa.array([0.1 + 0.2, 1e-300]), [0.1 + 0.2, 1e-300]),
        "a": ("text[]", pa.array([["NULL", None], []]), [["NULL", None], []]),
        "d": ("date", pa.array([NOW.date()] * 2), [NOW.date()] * 2),
        "at": ("timestamptz", pa.array([NOW] * 2, pa.timestamp("us", "UTC")), None),
    }
    batch = pa.RecordBatch.from_arrays([array for _, array, _ in columns.values()], list(columns))
    with psycopg.connect(unusual_url, autocommit=True, client_encoding="UTF8") as database:
        kinds = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
        database.execute(f"CREATE TABLE t ({kinds})".encode())
        publish(BatchContext(QUERY, 0, options(unusual_url)), [stage(options(unusual_url), batch)])
        database.execute("SET DateStyle = ISO; SET extra_float_digits = 3")
        found = zip(*rows(database, "SELECT x, y, f, a, d FROM t ORDER BY f DESC"), strict=True)
        assert [list(each) for each in found] == [each for *_, each in columns.values() if each]
        same = "SELECT count(*) FROM t WHERE at = '2026-11-22 01:02:03.456789+00'"
        assert rows(database, same) == [(2,)]


def test_a_date_that_each_server_reads_otherwise_is_refused(unusual_url: str) -> None:
    with psycopg.connect(unusual_url, autocommit=True) as database:
        database.execute("CREATE TABLE t (d date)")
        with pytest.raises(ValueError, match=r'column `d` of .* out of range: "03/04/2025'):
            write(options(unusual_url), 0, {"d": ["03/04/2025"]})
        write(options(unusual_url), 0, {"d": ["2025-04-03"]})
        assert rows(database, "SELECT d FROM t WHERE d = make_date(2025, 4, 3)") != []


def test_a_zone_s_short_name_is_the_same_zone_on_each_server(url: str, unusual_url: str) -> None:
    """IST is Israel's time, unless a server is set up for India."""
    found = []
    for where in (url, unusual_url):
        with psycopg.connect(where, autocommit=True) as database:
            database.execute("CREATE TABLE t (at timestamptz)")
            write(options(where), 0, {"at": ["2025-07-01 10:00 IST"]})
            found += rows(database, "SELECT extract(epoch FROM at)::int FROM t")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("smallint", 40_000),
        ("int", "one"),
        ("numeric(3,1)", Decimal("123.4")),
        ("uuid", "no"),
        ("date", "2026-02-30"),
        ("jsonb", "{"),
        ("varchar(2)", "abc"),
        ("text", "a\x00b"),
        ("text[]", ["a\x00b"]),
        ("jsonb", [{"a": float("nan")}]),
        ("jsonb", [{"a": "\x00"}]),
        ("int[]", [[1], [2, 3]]),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_the_column(
    url: str, database: Database, kind: str, value: Any
) -> None:
    database.execute(f"CREATE TABLE t (fine int, price {kind})".encode())
    with pytest.raises(ValueError, match=r"column `price`"):
        write(options(url), 0, {"fine": [1], "price": [value]})
    assert rows(database) == []


def test_a_number_is_the_same_amount_of_money_in_each_country(url: str, database: Database) -> None:
    """As a text 1234.56 is 123456 to a server with `lc_monetary` of Germany: so it is no text."""
    database.execute("CREATE TABLE t (one money, many money[], said money)")
    given = {"one": [Decimal("1234.56")], "many": [[0.5, -7.0]], "said": ["$1.50"]}
    staged = stage(options(url), given)
    assert staged
    look = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass"
    kinds = database.execute(f"{look} AND attnum > 0 ORDER BY attnum", [staged.table]).fetchall()
    assert kinds == [("numeric",), ("numeric[]",), ("money",)]
    publish(BatchContext(QUERY, 0, options(url)), [staged])
    amounts = "SELECT one::numeric, many::numeric[], said::numeric FROM t"
    assert rows(database, amounts) == [
        (Decimal("1234.56"), [Decimal("0.5"), Decimal(-7)], Decimal("1.5"))
    ]


IN_POSTGRESQL: dict[DataType, str] = {
    BooleanType(): "boolean",
    ByteType(): "smallint",
    ShortType(): "smallint",
    IntegerType(): "int",
    LongType(): "bigint",
    FloatType(): "real",
    DoubleType(): "float8",
    DecimalType(38, 18): "numeric(38,18)",
    DecimalType(10, 0): "numeric(10)",
    DecimalType(5, 5): "numeric(5,5)",
    StringType(): "text",
    BinaryType(): "bytea",
    DateType(): "date",
    TimestampType(): "timestamptz",
    TimestampNTZType(): "timestamp",
    DayTimeIntervalType(): "interval",
}
INTERVAL = 1186  # its number in PostgreSQL
FLAT_KINDS = st.sampled_from(list(IN_POSTGRESQL))
COLUMNS = st.lists(typed(FLAT_KINDS | st.builds(ArrayType, FLAT_KINDS)), min_size=25, max_size=25)


@few_or_many("examples", 1, 100)
def test_values_come_back_as_they_went_into_a_table(
    url: str, database: Database, examples: int
) -> None:
    """By a batch, and as changes. A text with NUL is an error that names a column with one."""

    def check(columns: list[tuple[DataType, list[Any]]]) -> None:
        kinds = {f"c {number}": kind for number, (kind, _) in enumerate(columns)}
        texts = [f'"{name}" {in_postgresql(kind)}' for name, kind in kinds.items()]
        database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({', '.join(texts)})".encode())
        database.execute("ALTER TABLE t ADD id int PRIMARY KEY")
        schema = StructType([StructField(name, kind) for name, kind in kinds.items()]).add(
            "id", IntegerType()
        )
        changes = Stream(url, slot=f"s_{url[-8:]}")
        given = list(zip_longest(*(values for _, values in columns), range(3)))
        packed = [RowPacker(schema).pack(given), RowPacker(schema).pack(without_nul(given))]
        wrong = [name for name, (_, values) in zip(kinds, columns, strict=True) if has_nul(values)]
        if wrong:
            with pytest.raises(ValueError, match=f"column `({'|'.join(wrong)})`: .* NUL"):
                stage(options(url), packed[0])
        job = BatchContext(QUERY, 0, options(url), streaming=False)
        publish(job, [stage(options(url), packed[1])])
        for found in (read_batch(url)[0], [change["after"] for change in changes.rows()]):
            rows = [[came(field.dataType, row[field.name]) for field in schema] for row in found]
            assert same(rows, [list(row) for row in without_nul(given)])
        database.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database()"
        )
        database.execute(f"DROP PUBLICATION s_{url[-8:]}".encode())

    holds(check, examples, COLUMNS)


def in_postgresql(kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return f"{IN_POSTGRESQL[kind.elementType]}[]"
    return IN_POSTGRESQL[kind]


def came(kind: DataType, value: Any) -> Any:
    """An interval comes as PostgreSQL's text."""
    if isinstance(kind, ArrayType) and value is not None:
        return [came(kind.elementType, each) for each in value]
    if not isinstance(kind, DayTimeIntervalType) or value is None:
        return value
    return Transformer().get_loader(INTERVAL, Format.TEXT).load(value.encode())


def has_nul(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_nul, value))
    return isinstance(value, str) and "\0" in value


def without_nul(given: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(None if has_nul(value) else value for value in row) for row in given]


@pytest.mark.parametrize("value", [[[], []], [None]])
def test_an_array_has_no_empty_array_in_it(url: str, database: Database, value: Any) -> None:
    """PostgreSQL would take the first one for an empty array, and the other for one with a null."""
    database.execute("CREATE TABLE t (a int[])")
    lists = pa.array([value], pa.list_(pa.list_(pa.int32())))
    with pytest.raises(ValueError, match="column `a`: an array of PostgreSQL has no empty array"):
        stage(options(url), {"a": lists})


def test_a_column_that_the_table_has_not(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    with pytest.raises(psycopg.errors.UndefinedColumn, match='column "m" does not exist'):
        write(options(url), 0, {"m": [1]})
