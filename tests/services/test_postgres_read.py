"""Reading from a real server: batches, inserted rows and changes, called as the builder does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.services.databases import UNUSUAL
from tutorial_pkg.builder import FunctionError, Options
from tutorial_pkg.connectors.postgres import PostgresDataSource, connection
from tutorial_pkg.connectors.postgres.options import FORMAT, READ
from tutorial_pkg.core.waiting import wait_until
from workbook.services import Postgres

Database = psycopg.Connection[Any]


def source(url: str, **options: object) -> PostgresDataSource:
    texts = {name: str(value) for name, value in options.items()}
    return PostgresDataSource({"url": url, "table": "t", "waitSeconds": "5", **texts})


def batch(url: str, **options: object) -> list[list[dict[str, Any]]]:
    """Return the rows of each task."""
    data_source = source(url, **options)
    reader = data_source.reader(data_source.schema())
    return [rows_of(reader.read(part)) for part in reader.partitions()]


def rows_of(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


class Stream:
    """A query that continues at `offset`; `rows()` reads its next batch."""

    def __init__(self, url: str, offset: dict[str, Any] | None = None, **options: object) -> None:
        data_source = source(url, **options)
        self.reader: Any = data_source.streamReader(data_source.schema())
        self.offset = offset or self.reader.initialOffset()

    def rows(self) -> list[dict[str, Any]]:
        limited = vars(self.reader).get("_reader", self.reader)  # wrapped before Spark 4.2
        end = self.reader.latestOffset(self.offset, limited.getDefaultReadLimit())
        rows = self.read(self.offset, end)
        self.offset = end
        return rows

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        parts = self.reader.partitions(start, end)
        return [row for part in parts for row in rows_of(self.reader.read(part))]


@contextmanager
def fails(error: type[Exception], *words: str) -> Iterator[None]:
    """Expect an error of this type, raised by a function or the builder, with these words."""
    with pytest.raises((FunctionError, error)) as caught:
        yield
    assert isinstance(caught.value, error) or isinstance(caught.value.__cause__, error)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.fixture
def name(url: str) -> str:
    """A slot's name, which no other database has."""
    return str(conninfo_to_dict(url)["dbname"])


# ---- Batch ---------------------------------------------------------------------------------------


def test_skewed_keys_make_equal_ranges(url: str, database: Database) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT (random() ^ 8 * 1e9)::bigint AS key, 7 AS same, n "
        "FROM generate_series(1, 20000) AS n"
    )
    database.execute("INSERT INTO t VALUES (NULL, 7, 0), (NULL, 7, -1)")
    parts = batch(url, key="key", parallelism=4)
    assert all(4900 < len(part) < 5100 for part in parts)
    assert sorted(row["n"] for part in parts for row in part) == list(range(-1, 20001))
    assert sum(len(part) for part in batch(url, key="same", parallelism=4)) == 20002


def test_large_table_is_cut_by_a_sample(url: str, database: Database) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT (n::float8 ^ 3)::bigint AS key, repeat('x', 1000) AS x "
        "FROM generate_series(1, 20000) AS n"
    )
    sizes = [len(part) for part in batch(url, key="key", parallelism=4)]
    assert sum(sizes) == 20000 and min(sizes) > 3000


def test_views_queries_and_text_keys(url: str, database: Database) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT 'k''' || n AS \"a \"\"key\", n FROM generate_series(1, 100) AS n"
    )
    database.execute("CREATE VIEW v AS SELECT * FROM t")
    for table in ("v", "t"):
        parts = batch(url, key='a "key', parallelism=3, table=table)
        assert len(parts) == 3 and sorted(r["n"] for p in parts for r in p) == list(range(1, 101))
    query = {"query": "SELECT * FROM t WHERE n % 2 = 0", "key": "n", "parallelism": "2"}
    reader = PostgresDataSource({"url": url, **query})
    reader = reader.reader(reader.schema())
    assert [len(rows_of(reader.read(part))) for part in reader.partitions()] == [24, 26]


def test_table_replaced_between_tasks_is_an_error(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 100) AS n")
    data_source = source(url, key="n", parallelism=2)
    reader = data_source.reader(data_source.schema())
    first, second = reader.partitions()
    assert len(rows_of(reader.read(first))) > 40
    database.execute("DROP TABLE t; CREATE TABLE t AS SELECT n FROM generate_series(1, 60) AS n")
    with fails(LookupError, "`t`"):
        rows_of(reader.read(second))


TYPED = """CREATE TYPE mood AS ENUM ('fine');
CREATE TABLE t (i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, b bool, x text, c char(3), y bytea,
    d date, ts timestamp, tz timestamptz, n numeric(10,2), any_n numeric, u uuid, j jsonb, m mood,
    iv interval, ip inet, bx box[], a int[], at text[], an numeric(5,1)[], au uuid[], ti time,
    mo money);
INSERT INTO t VALUES (1, 2, 3, 1.5, 2.5, true, 'é', 'a', '\\x00ff', '2026-02-28',
    '2026-02-28 01:02:03.456789', '2026-02-28 01:02:03+01', 1.5, 12345678901234567890.5,
    '00000000-0000-0000-0000-000000000001', '{"a": [1]}', 'fine', '1 day 02:00', '10.0.0.1',
    '{(1,1),(0,0);(2,2),(0,0)}',
    '{1,NULL}', '{"a,b",NULL}', '{1.5}', '{00000000-0000-0000-0000-000000000001}', '12:30', 1.5);
INSERT INTO t DEFAULT VALUES"""
VALUES = {
    "i2": 1, "i4": 2, "i8": 3, "f4": 1.5, "f8": 2.5, "b": True, "x": "é", "c": "a  ", "y": b"\0\xff",  # noqa: E501
    "d": date(2026, 2, 28), "ts": datetime(2026, 2, 28, 1, 2, 3, 456789),
    "tz": datetime(2026, 2, 28, 0, 2, 3, tzinfo=UTC), "n": Decimal("1.50"),
    "any_n": Decimal("12345678901234567890.5"), "u": "00000000-0000-0000-0000-000000000001",
    "j": '{"a": [1]}', "m": "fine", "iv": "1 day 02:00:00", "ip": "10.0.0.1", "a": [1, None],
    "bx": "{(1,1),(0,0);(2,2),(0,0)}",
    "at": ["a,b", None], "an": [Decimal("1.5")], "au": ["00000000-0000-0000-0000-000000000001"],
    "ti": "12:30:00", "mo": "$1.50",
}  # fmt: skip


def test_all_types(url: str, database: Database, name: str) -> None:
    """In changes and in a batch."""
    *created, full, empty = TYPED.split(";\n")
    database.execute(";".join([*created, "ALTER TABLE t ADD id serial PRIMARY KEY"]).encode())
    stream = Stream(url, slot=name)
    database.execute(f"{full};{empty}".encode())
    expected = [{**VALUES, "id": 1}, {**dict.fromkeys(VALUES), "id": 2}]
    assert [row["after"] for row in stream.rows()] == expected
    assert batch(url) == [expected]


@pytest.mark.parametrize(
    "value",
    ["'infinity'::timestamptz", "'0044-03-15 BC'::date", "ARRAY['infinity'::date]",
     "'12345678901234567890123'::numeric", "ARRAY['NaN'::numeric]"],
)  # fmt: skip
def test_unsupported_value_names_its_column(url: str, database: Database, value: str) -> None:
    database.execute(f"CREATE TABLE t AS SELECT 1 AS fine, {value} AS price".encode())
    with fails(ValueError, "column `price`"):
        batch(url)


def test_arrays_have_one_dimension(url: str, database: Database, name: str) -> None:
    """The lower bound of an array does not matter."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a int[], n numeric(3,1)[])")
    database.execute("INSERT INTO t VALUES (1, '[5:6]={1,2}', '[0:1]={1.5,NULL}'), (2, '{}', NULL)")
    rows = [{"id": 1, "a": [1, 2], "n": [Decimal("1.5"), None]}, {"id": 2, "a": [], "n": None}]
    inserted, changes = Stream(url, key="id"), Stream(url, slot=name)
    assert batch(url) == [rows] and inserted.rows() == rows
    database.execute("INSERT INTO t VALUES (3, '[5:6]={7,8}', NULL)")
    assert [row["after"] for row in changes.rows()] == [{"id": 3, "a": [7, 8], "n": None}]
    database.execute("INSERT INTO t VALUES (4, '{1}', '{{1,2},{3,4}}')")
    for read in (lambda: batch(url), inserted.rows, changes.rows):
        with fails(ValueError, "column `n`"):
            read()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "nothing"}, '"nothing"'),
        ({"query": "SELECT 1) AS source; DROP TABLE t; --", "table": ""}, "`table`"),
        ({"query": "SELECT 1"}, "`query`"),
        ({"table": 't"; DROP TABLE t; --'}, "`table`"),
        ({"slot": "Not-a-slot"}, "`slot`"),
        ({"slot": "s", "key": "n"}, "`key`"),
        ({"slot": "s"}, "primary key"),
    ],
)
def test_wrong_options_fail_before_a_query(
    url: str, database: Database, options: dict[str, str], words: str
) -> None:
    database.execute("CREATE TABLE t (n int)")
    with pytest.raises(ValueError, match=words):
        source(url, **options).schema()


# ---- Inserted rows -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waits", "expected"), [(False, ["early", "later"]), (True, ["late", "early", "later"])]
)
def test_await_writers_reads_late_commits(
    url: str, database: Database, waits: bool, expected: list[str]
) -> None:
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, who text)")
    stream = Stream(url, key="id", awaitWriters=waits)
    with psycopg.connect(url) as late:
        late.execute("INSERT INTO t (who) VALUES ('late')")
        database.execute("INSERT INTO t (who) VALUES ('early')")
        rows = stream.rows()
        late.commit()
    database.execute("INSERT INTO t (who) VALUES ('later')")
    rows += stream.rows() + stream.rows()
    assert [row["who"] for row in rows] == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("SELECT n::bigint * 1000000000 AS id FROM generate_series(-3, 9) AS n", [5, 5, 3, 0]),
        (
            "SELECT n / 6 AS id FROM generate_series(0, 12) AS n",
            [6, 6, 1, 0],
        ),  # more than 5 per key
        ("SELECT unnest('{-9223372036854775808,1,9223372036854775807}'::bigint[]) AS id", [3, 0]),
    ],
)
def test_limit_counts_rows_of_whole_keys(
    url: str, database: Database, keys: str, expected: list[int]
) -> None:
    database.execute(f"CREATE TABLE t AS {keys}".encode())
    stream = Stream(url, key="id", maxRowsPerTrigger=5)
    assert [len(stream.rows()) for _ in expected] == expected


def test_table_is_known_by_its_oid(url: str, database: Database) -> None:
    """Its name may be spelled differently, and a re-created table starts its keys again."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, key="id")
    database.execute("INSERT INTO t VALUES (5), (6)")
    start, before = stream.offset, stream.rows()
    assert len(before) == 2 and next(iter(stream.offset)).startswith("t@")
    database.execute("INSERT INTO t VALUES (7)")
    for offset, table in ((stream.offset, '"public".t'), ({"t": 7}, "t")):
        restarted = Stream(url, offset, key="id", table=table)  # {"t": 7}: of an earlier version
        assert restarted.rows() + restarted.rows() == [{"id": 7}]
    database.execute("DELETE FROM t WHERE id > 5")
    assert stream.rows() == []
    database.execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (9)")
    for read in (stream.rows, lambda: stream.read(start, stream.offset)):
        with fails(LookupError, "`t`", "re-created"):
            read()
    continued = Stream(url, stream.offset, key="id", failOnDataLoss="false")
    assert continued.rows() == [] and continued.rows() == [{"id": 9}]
    assert continued.read(start, stream.offset) == []


# ---- Changes -------------------------------------------------------------------------------------


def test_changes_have_key_before_and_after(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int, x text, PRIMARY KEY (id) INCLUDE (x))")
    stream = Stream(url, slot=name)
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    database.execute("UPDATE t SET x = 'c' WHERE id = 1")
    database.execute("UPDATE t SET id = 3 WHERE id = 2")
    database.execute("DELETE FROM t WHERE id = 1")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET x = NULL; TRUNCATE t")
    changes = [
        (r["operation"], r["key"] and r["key"]["id"], r["before"], r["after"])
        for r in stream.rows()
    ]
    assert changes == [
        ("insert", 1, None, {"id": 1, "x": "a"}),
        ("insert", 2, None, {"id": 2, "x": "b"}),
        ("update", 1, None, {"id": 1, "x": "c"}),
        ("update", 3, {"id": 2, "x": None}, {"id": 3, "x": "b"}),
        ("delete", 1, {"id": 1, "x": None}, None),
        ("update", 3, {"id": 3, "x": "b"}, {"id": 3, "x": None}),
        ("truncate", None, None, None),
    ]
    assert stream.rows() == []


def test_committed_changes_are_gone(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, slot=name)
    start = stream.offset
    database.execute("INSERT INTO t VALUES (1)")
    assert len(stream.rows()) == 1
    stream.reader.commit(stream.offset)
    with fails(RuntimeError, f"slot `{name}` was advanced"):
        stream.read(start, stream.offset)


def test_snapshot_and_changes_have_each_row_once(url: str, database: Database, name: str) -> None:
    """Rows are written all the time while the snapshot is taken."""
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, x text)")
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO t (x) VALUES ('x')")

    def has_rows(count: int) -> bool:
        return database.execute("SELECT FROM t").rowcount > count

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: has_rows(50), 30, "rows before the slot")
        stream = Stream(url, slot=name, snapshot="true", maxRowsPerTrigger=40)
        wait_until(lambda: has_rows(150), 30, "rows after the slot")
    finally:
        stop.set()
        writer.join()
    changes: list[dict[str, Any]] = []
    while rows := stream.rows():
        changes += rows
    [(total,)] = database.execute("SELECT count(*) FROM t").fetchall()
    assert sorted(row["key"]["id"] for row in changes) == list(range(1, total + 1))
    assert {row["operation"] for row in changes} == {"snapshot", "insert"}
    stream.reader.commit(stream.offset)
    assert database.execute("SELECT FROM pg_class WHERE relname LIKE 'spark_snap%'").rowcount == 0


@pytest.mark.parametrize("snapshot", [False, True])
def test_open_transaction_delays_a_slot_in_time(
    url: str, database: Database, name: str, snapshot: bool
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int)")
    with psycopg.connect(url) as writer:
        writer.execute("INSERT INTO other VALUES (1)")
        with fails(TimeoutError, "`waitSeconds`"):
            Stream(url, slot=name, snapshot=snapshot, waitSeconds=1)


def test_lost_slot_is_an_error(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, slot=name)
    assert stream.rows() == []
    database.execute("INSERT INTO t VALUES (1)")
    with invalidated(database, name), fails(RuntimeError, f"slot `{name}` was invalidated"):
        stream.rows()
    database.execute("SELECT pg_drop_replication_slot(%s)", [name])
    with fails(RuntimeError, f"slot `{name}` was dropped"):
        stream.rows()
    database.execute("SELECT pg_create_physical_replication_slot(%s)", [name])
    with fails(ValueError, f"slot `{name}` is not a logical slot"):
        stream.rows()
    database.execute("SELECT pg_drop_replication_slot(%s)", [name])
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    database.execute("INSERT INTO t VALUES (2)")
    with fails(RuntimeError, f"slot `{name}` was advanced or re-created"):
        stream.rows()


@contextmanager
def invalidated(database: Database, name: str) -> Iterator[None]:
    """Have the server delete log that this slot needs."""
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    database.execute("SELECT pg_reload_conf()")
    look = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"
    try:
        while next(iter(database.execute(look, [name])))[0] != "lost":
            database.execute("CREATE TABLE moved (); DROP TABLE moved")
            database.execute("SELECT pg_switch_wal()")
            database.execute("CHECKPOINT")
        yield
    finally:
        database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        database.execute("SELECT pg_reload_conf()")


def test_added_column_is_null_in_older_rows(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    options = {"slot": name, "snapshot": "true", "maxRowsPerTrigger": 1}
    stream = Stream(url, **options)
    assert [row["after"] for row in stream.rows()] == [{"id": 1, "x": "a"}]
    database.execute("INSERT INTO t VALUES (3, 'c')")
    database.execute("ALTER TABLE t ADD y int[] NOT NULL DEFAULT '{5}'")
    database.execute("INSERT INTO t VALUES (4, 'e', '{6}')")
    stream = Stream(url, stream.offset, **options)
    assert [row["after"] for _ in range(4) for row in stream.rows()] == [
        {"id": 2, "x": "b", "y": None},  # of the snapshot
        {"id": 3, "x": "c", "y": None},
        {"id": 4, "x": "e", "y": [6]},
    ]


def test_renamed_column_is_not_null_in_older_rows(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    options = {"slot": name, "snapshot": True, "maxRowsPerTrigger": 1}
    stream = Stream(url, **options)
    stream.rows()
    database.execute("INSERT INTO t VALUES (3, 'c'); ALTER TABLE t RENAME x TO y")
    with fails(ValueError, "['y']"):
        Stream(url, stream.offset, **options).rows()


def test_dropped_column_ends_the_query(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text, y text)")
    stream = Stream(url, slot=name)
    database.execute("ALTER TABLE t ADD z int; INSERT INTO t VALUES (1, 'a', 'b', 2)")
    assert stream.rows()[0]["after"] == {"id": 1, "x": "a", "y": "b"}
    database.execute("ALTER TABLE t DROP y; INSERT INTO t VALUES (2, 'a', 2)")
    with fails(ValueError, "['y']"):
        stream.rows()


def test_large_unchanged_value_needs_full_identity(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text, n int)")
    database.execute("ALTER TABLE t ALTER x SET STORAGE EXTERNAL, REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t VALUES (1, repeat('x', 10000), 0)")
    stream = Stream(url, slot=name)
    database.execute("UPDATE t SET n = 1")
    [row] = stream.rows()
    assert len(row["after"]["x"]) == 10_000
    database.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    database.execute("UPDATE t SET n = 2")
    with fails(ValueError, "column `x`", "REPLICA IDENTITY FULL"):
        stream.rows()


def test_delete_without_primary_key_is_an_error(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, mail text NOT NULL UNIQUE)")
    database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_mail_key")
    stream = Stream(url, slot=name)
    database.execute("INSERT INTO t VALUES (1, 'a'); UPDATE t SET mail = 'b'")
    assert [row["key"] for row in stream.rows()] == [{"id": 1}, {"id": 1}]
    database.execute("DELETE FROM t")
    with fails(ValueError, "`t`", "REPLICA IDENTITY DEFAULT"):
        stream.rows()


def test_log_of_other_tables_is_released(url: str, database: Database, name: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
    stream = Stream(url, slot=name)
    assert stream.rows() == []
    before = dict(stream.offset)
    assert stream.rows() == [] and stream.offset == before
    database.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
    assert stream.rows() == []
    assert next(iter(stream.offset.values())) > next(iter(before.values())) + (16 << 20)


CHANGED: dict[str, type[Exception]] = {
    "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY)": RuntimeError,
    "DROP PUBLICATION {0}": RuntimeError,
    "DROP PUBLICATION {0}; CREATE PUBLICATION {0} FOR TABLE t": LookupError,
    "ALTER PUBLICATION {0} SET TABLE t WHERE (id > 5)": RuntimeError,
    "ALTER PUBLICATION {0} SET TABLE t (id)": RuntimeError,
    "ALTER PUBLICATION {0} SET (publish = 'insert')": RuntimeError,
    "CREATE TABLE other (id int PRIMARY KEY); ALTER PUBLICATION {0} ADD TABLE other;"
    "INSERT INTO other VALUES (1)": RuntimeError,
}


@pytest.mark.parametrize("change", CHANGED)
def test_incomplete_publication_ends_the_query(
    url: str, database: Database, name: str, change: str
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, slot=name)
    assert stream.rows() == []
    database.execute(change.format(name).encode())
    database.execute("INSERT INTO t VALUES (1)")
    for query in (stream, Stream(url, stream.offset, slot=name)):
        with fails(CHANGED[change]):
            query.rows()


def test_slot_without_publication_is_an_error(url: str, database: Database, name: str) -> None:
    """A new publication would lack the changes since the old one."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    Stream(url, slot=name)
    database.execute(f"DROP PUBLICATION {name}; INSERT INTO t VALUES (1)".encode())
    with fails(RuntimeError, f"publication `{name}`", "pg_drop_replication_slot"):
        Stream(url, slot=name)


GENERATED = "CREATE TABLE t (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a + 1) {})"
FULL = "ALTER TABLE t REPLICA IDENTITY FULL"
UNPUBLISHABLE = [
    "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)",
    "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
    "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id);"
    "CREATE TABLE a PARTITION OF t DEFAULT; ALTER TABLE a REPLICA IDENTITY NOTHING",
    f"{GENERATED.format('STORED')}; {FULL}",
    f"{GENERATED.format('VIRTUAL')}; {FULL}",
    f"{GENERATED.format('STORED')}; ALTER TABLE t ALTER b SET NOT NULL;"
    "CREATE UNIQUE INDEX i ON t (b); ALTER TABLE t REPLICA IDENTITY USING INDEX i",
]


@pytest.mark.parametrize("create", UNPUBLISHABLE)
def test_publication_never_blocks_updates(
    url: str, database: Database, name: str, create: str
) -> None:
    database.execute(create.encode())
    with fails(ValueError, "`t`", "REPLICA IDENTITY DEFAULT"):
        Stream(url, slot=name)
    assert not database.execute("SELECT FROM pg_publication").rowcount
    database.execute("UPDATE t SET id = 2")


CONFIRMED = """SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots
    WHERE slot_name = %s"""


@pytest.mark.parametrize("form", ["{name}", "{name}@{oid}"])
def test_earlier_checkpoint_of_changes_continues(
    url: str, database: Database, name: str, form: str
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    Stream(url, slot=name)
    [[position]] = database.execute(CONFIRMED, [name]).fetchall()
    [[oid]] = database.execute("SELECT oid FROM pg_publication_rel").fetchall()
    database.execute("INSERT INTO t VALUES (1)")
    stream = Stream(url, {form.format(name=name, oid=oid): position}, slot=name)
    rows = stream.rows() + stream.rows()
    assert [row["after"]["id"] for row in rows] == [1]
    stream.reader.commit(stream.offset)
    assert database.execute(CONFIRMED, [name]).fetchall() > [(position,)]


# ---- What others have set, and a server that is away ---------------------------------------------


def test_every_connection_has_our_settings(unusual_url: str) -> None:
    expected = {**UNUSUAL, **connection.SETTINGS, "client_encoding": "UTF8", "lock_timeout": "5s"}
    names = ", ".join(f"current_setting('{name}') AS \"{name}\"" for name in expected)
    values = Options(FORMAT, READ).parse({"url": unusual_url, "waitSeconds": "5"})
    for parameters in ({}, {"replication": "database"}):
        with connection.connect(values, **parameters) as database:
            settings = next(iter(database.execute(f"SELECT {names}".encode())))
            assert dict(zip(expected, settings, strict=True)) == expected
    data_source = PostgresDataSource({"url": unusual_url, "query": f"SELECT {names}"})
    reader = data_source.reader(data_source.schema())
    [row] = [row for part in reader.partitions() for row in rows_of(reader.read(part))]
    assert row | {"lock_timeout": "5s"} == expected


def test_unavailable_database_is_awaited(postgres: Postgres, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE t (id serial PRIMARY KEY)")
    stream = Stream(url, key="id", waitSeconds=60)
    assert stream.rows() == []
    postgres.kill()
    restarting = threading.Timer(1.5, postgres.restart)
    try:
        with pytest.raises(ConnectionError, match="`waitSeconds`"):
            source(url, waitSeconds=1).schema()
        restarting.start()
        assert source(url, waitSeconds=60).schema().names == ["id"]
        assert stream.rows() == []  # its connection broke
    finally:
        restarting.join()


def test_broken_connection_of_arrow_is_transient(url: str, database: Database) -> None:
    with closing(adbc.connect(url)) as reading, reading.cursor() as cursor:
        with pytest.raises(adbc.OperationalError) as wrong:
            reading.execute("SELECT (SELECT 1 UNION SELECT 2)").fetchall()
        reading.rollback()
        cursor.execute("SELECT pg_backend_pid()")
        database.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
        with pytest.raises(adbc.OperationalError) as caught:
            cursor.execute("SELECT 1")
    assert connection.is_transient(caught.value) and not connection.is_transient(wrong.value)
