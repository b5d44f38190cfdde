"""Reading against a real server: a batch, inserted rows, changes; as the builder calls it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.services.databases import UNUSUAL, drop_database, new_database
from tests.since import since_4_2
from tutorial_pkg.builder import FunctionError, Options
from tutorial_pkg.connectors.postgres import PostgresDataSource, connection, inserted, slot
from tutorial_pkg.connectors.postgres.options import FORMAT, READ
from tutorial_pkg.core.spark_versions import ReadAllAvailable
from tutorial_pkg.core.waiting import wait_until
from workbook.services import Postgres

Database = psycopg.Connection[Any]
ALL = ReadAllAvailable()


def source(url: str, **given: object) -> PostgresDataSource:
    options = {name: str(value) for name, value in given.items()}
    return PostgresDataSource({"url": url, "table": "t", "waitSeconds": "5", **options})


def batch(url: str, **given: object) -> list[list[dict[str, Any]]]:
    """The rows of each task."""
    data_source = source(url, **given)
    reader = data_source.reader(data_source.schema())
    return [rows_of(reader.read(part)) for part in reader.partitions()]


def rows_of(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


class Stream:
    """A query that goes on from `offset`; `rows` are those of the next batch."""

    def __init__(self, url: str, offset: dict[str, Any] | None = None, **given: object) -> None:
        data_source = source(url, **given)
        self.reader: Any = data_source.streamReader(data_source.schema())
        self.offset = offset or self.reader.initialOffset()

    def rows(self) -> list[dict[str, Any]]:
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        found = self.read(self.offset, end)
        self.offset = end
        return found

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        parts = self.reader.partitions(start, end)
        return [row for part in parts for row in rows_of(self.reader.read(part))]


# ---- Batch ---------------------------------------------------------------------------------------


def test_a_table_whose_keys_are_skewed_is_cut_into_equal_parts(
    url: str, database: Database
) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT (random() ^ 8 * 1e9)::bigint AS key, n "
        "FROM generate_series(1, 20000) AS n"
    )
    database.execute("INSERT INTO t VALUES (NULL, 0), (NULL, -1)")
    parts = batch(url, key="key", parallelism=4)
    assert all(4900 < len(part) < 5100 for part in parts)
    assert sorted(row["n"] for part in parts for row in part) == list(range(-1, 20001))


def test_a_large_table_is_cut_by_a_sample(url: str, database: Database) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT (n::float8 ^ 3)::bigint AS key, repeat('x', 1000) AS x "
        "FROM generate_series(1, 20000) AS n"
    )
    parts = batch(url, key="key", parallelism=4)
    sizes = [len(part) for part in parts]
    assert sum(sizes) == 20000 and min(sizes) > 3000


def test_one_key_for_all_rows_is_one_task(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t AS SELECT 7 AS key, n FROM generate_series(1, 100) AS n")
    assert sum(len(part) for part in batch(url, key="key", parallelism=4)) == 100


def test_a_query_a_view_and_texts_as_keys(url: str, database: Database) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT 'k''' || n AS \"a \"\"key\", n FROM generate_series(1, 100) AS n"
    )
    database.execute("CREATE VIEW v AS SELECT * FROM t")
    query = "SELECT * FROM t WHERE n % 2 = 0"
    for given in ({"table": "v"}, {"table": "t"}):
        parts = batch(url, key='a "key', parallelism=3, **given)
        assert len(parts) == 3 and sorted(r["n"] for p in parts for r in p) == list(range(1, 101))
    data_source = PostgresDataSource({"url": url, "query": query, "key": "n", "parallelism": "2"})
    reader = data_source.reader(data_source.schema())
    assert [len(rows_of(reader.read(part))) for part in reader.partitions()] == [24, 26]


def test_a_query_is_one_statement(url: str, database: Database) -> None:
    """Others behind it would run when the query is planned."""
    database.execute("CREATE TABLE t (n int)")
    query = "SELECT 1) AS source; DROP TABLE t; --"
    with pytest.raises(ValueError, match="cannot insert multiple commands"):
        PostgresDataSource({"url": url, "query": query}).schema()
    assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_query_with_a_limit_is_the_same_for_all_tasks(url: str, database: Database) -> None:
    """The server begins to read a large table where the last one stopped, unless it is told."""
    database.execute(
        "CREATE TABLE t AS SELECT n, repeat('x', 1900) AS x FROM generate_series(1, 20000) AS n"
    )
    query = "SELECT n FROM t LIMIT 15000"
    data_source = PostgresDataSource({"url": url, "query": query, "key": "n", "parallelism": "4"})
    reader = data_source.reader(data_source.schema())
    found = [row["n"] for part in reader.partitions() for row in rows_of(reader.read(part))]
    assert sorted(found) == list(range(1, 15001))


def test_a_table_that_is_made_again_between_two_tasks(url: str, database: Database) -> None:
    """Some rows would be the old one's, others the new one's."""
    database.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 100) AS n")
    data_source = source(url, key="n", parallelism=2)
    reader = data_source.reader(data_source.schema())
    first, second = reader.partitions()
    assert len(rows_of(reader.read(first))) > 40
    database.execute("DROP TABLE t; CREATE TABLE t AS SELECT n FROM generate_series(1, 60) AS n")
    with pytest.raises(FunctionError, match="LookupError: table `t` was dropped and made again"):
        rows_of(reader.read(second))


@pytest.mark.parametrize("streaming", [False, True])
def test_a_table_that_is_made_again_when_a_task_begins_to_read(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    """The task has just seen that it is the right one."""
    database.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 10) AS n")
    database.execute("CREATE TABLE other AS SELECT n FROM generate_series(1, 5) AS n")
    arrow_rows = inserted.arrow_rows

    def late(*given: Any) -> Any:
        database.execute("ALTER TABLE t RENAME TO old; ALTER TABLE other RENAME TO t")
        return arrow_rows(*given)

    monkeypatch.setattr(inserted, "arrow_rows", late)
    with pytest.raises(FunctionError, match="LookupError: table `t` was dropped and made again"):
        if streaming:
            Stream(url, key="n").rows()
        else:
            batch(url)


def test_a_column_that_was_altered_is_not_read_as_another_value(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, day date, yes boolean, n bigint)")
    stream = Stream(url, key="id")
    database.execute("ALTER TABLE t ALTER yes TYPE int USING 1; INSERT INTO t VALUES (1, NULL, 7)")
    with pytest.raises(FunctionError, match=r"column `yes` BOOLEAN.* start it again"):
        stream.rows()
    database.execute("ALTER TABLE t ALTER yes TYPE boolean USING true")
    database.execute("ALTER TABLE t ALTER day TYPE timestamp; UPDATE t SET day = now()")
    with pytest.raises(FunctionError, match=r"column `day` DATE.* start it again"):
        stream.rows()
    for kind, value in (("oid", "4294967295"), ("money", "5.55")):
        database.execute(f"ALTER TABLE t ALTER n TYPE {kind} USING {value}".encode())
        with pytest.raises(FunctionError, match=f"column `n` is a {kind}, which is read as STRING"):
            stream.rows()


TYPED = """CREATE TYPE mood AS ENUM ('fine');
CREATE TABLE t (i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, b bool, x text, c char(3), y bytea,
    d date, ts timestamp, tz timestamptz, n numeric(10,2), any_n numeric, u uuid, j jsonb, m mood,
    iv interval, ip inet, bx box[], a int[], at text[], an numeric(5,1)[], au uuid[], ti time);
INSERT INTO t VALUES (1, 2, 3, 1.5, 2.5, true, 'é', 'a', '\\x00ff', '2026-02-28',
    '2026-02-28 01:02:03.456789', '2026-02-28 01:02:03+01', 1.5, 12345678901234567890.5,
    '00000000-0000-0000-0000-000000000001', '{"a": [1]}', 'fine', '1 day 02:00', '10.0.0.1',
    '{(1,1),(0,0);(2,2),(0,0)}',
    '{1,NULL}', '{"a,b",NULL}', '{1.5}', '{00000000-0000-0000-0000-000000000001}', '12:30');
INSERT INTO t DEFAULT VALUES"""
VALUES = {
    "i2": 1, "i4": 2, "i8": 3, "f4": 1.5, "f8": 2.5, "b": True, "x": "é", "c": "a  ", "y": b"\0\xff",  # noqa: E501
    "d": date(2026, 2, 28), "ts": datetime(2026, 2, 28, 1, 2, 3, 456789),
    "tz": datetime(2026, 2, 28, 0, 2, 3, tzinfo=UTC), "n": Decimal("1.50"),
    "any_n": Decimal("12345678901234567890.5"), "u": "00000000-0000-0000-0000-000000000001",
    "j": '{"a": [1]}', "m": "fine", "iv": "1 day 02:00:00", "ip": "10.0.0.1", "a": [1, None],
    "bx": "{(1,1),(0,0);(2,2),(0,0)}",
    "at": ["a,b", None], "an": [Decimal("1.5")], "au": ["00000000-0000-0000-0000-000000000001"],
    "ti": "12:30:00",
}  # fmt: skip


def test_all_types_in_a_batch(url: str, database: Database) -> None:
    database.execute(TYPED)
    [[full, empty]] = batch(url)
    assert full == VALUES
    assert empty == dict.fromkeys(VALUES)


@pytest.mark.parametrize(
    "value",
    ["'infinity'::timestamptz", "'-infinity'::timestamp", "'infinity'::date", "'NaN'::numeric",
     "'12345678901234567890123'::numeric", "0.1234567890123456789::numeric",
     "'0044-03-15 BC'::date", "ARRAY['NaN'::numeric]", "ARRAY['infinity'::date]"],
)  # fmt: skip
def test_a_value_that_spark_cannot_hold_is_an_error_with_the_column(
    url: str, database: Database, value: str
) -> None:
    database.execute(f"CREATE TABLE t AS SELECT 1 AS fine, {value} AS price".encode())
    with pytest.raises(FunctionError, match="ValueError: column `price`"):
        batch(url)


def test_an_array_of_several_dimensions_is_no_array_of_spark(url: str, database: Database) -> None:
    """The client would make one of them. Where an array begins to count is no matter."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a int[], n numeric(3,1)[])")
    database.execute("INSERT INTO t VALUES (1, '[5:6]={1,2}', '[0:1]={1.5,NULL}'), (2, '{}', NULL)")
    rows = [{"id": 1, "a": [1, 2], "n": [Decimal("1.5"), None]}, {"id": 2, "a": [], "n": None}]
    inserted_rows, changes = Stream(url, key="id"), Stream(url, slot="arrays_" + url[-8:])
    assert batch(url) == [rows] and inserted_rows.rows() == rows
    database.execute("INSERT INTO t VALUES (3, '[5:6]={7,8}', NULL)")
    assert [row["after"] for row in changes.rows()] == [{"id": 3, "a": [7, 8], "n": None}]
    database.execute("INSERT INTO t VALUES (4, '{1}', '{{1,2},{3,4}}')")
    for read in (lambda: batch(url), inserted_rows.rows, changes.rows):
        with pytest.raises(FunctionError, match=r"ValueError: column `n`"):
            read()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"table": "nothing"}, 'relation "nothing" does not exist'),
        ({"query": "SELECT 1"}, "give one of the options `table` and `query`"),
        ({"table": 't"; DROP TABLE t; --'}, "option `table` must be `name`, `schema.name` or"),
        ({"slot": "Not-a-slot"}, "option `slot` must be a-z, 0-9 and `_`, up to 48, got"),
        (
            {"slot": "s", "key": "n"},
            "takes a `slot` and a `table`; `key` and `query` are for other",
        ),
        ({"slot": "s"}, "table `t` has no primary key"),
        ({"parallelism": "0"}, "option `parallelism` must be 1 or more, got '0'"),
    ],
)
def test_wrong_options_are_refused_when_the_query_is_made(
    url: str, database: Database, given: dict[str, str], error: str
) -> None:
    database.execute("CREATE TABLE t (n int)")
    with pytest.raises(ValueError, match=error):
        source(url, **given).schema()


# ---- Inserted rows -------------------------------------------------------------------------------


def test_two_writers_one_of_them_late(url: str, database: Database) -> None:
    """What the docstring says: without `awaitWriters` the late row is missing, with it none."""
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, who text)")
    for waits, expected in (("false", ["early", "later"]), ("true", ["late", "early", "later"])):
        database.execute("TRUNCATE t")
        stream = Stream(url, key="id", awaitWriters=waits)
        with psycopg.connect(url) as late:
            late.execute("INSERT INTO t (who) VALUES ('late')")
            database.execute("INSERT INTO t (who) VALUES ('early')")
            found = stream.rows()
            late.commit()
        database.execute("INSERT INTO t (who) VALUES ('later')")
        found += stream.rows() + stream.rows()  # what waited for the late one; then what is new
        assert [row["who"] for row in found] == expected


def test_writers_who_relieve_each_other_are_not_waited_for_for_ever(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is never a moment in which nobody writes, and yet each of them ends."""
    monkeypatch.setattr(inserted, "LOOK_SECONDS", 0.1)
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, n int)")
    stream = Stream(url, key="id", awaitWriters="true")
    found: list[dict[str, Any]] = []
    writers = [psycopg.connect(url)]
    try:
        for number in range(4):
            writers[-1].execute("INSERT INTO t (n) VALUES (%s)", [number])
            found += stream.rows()
            writers.append(psycopg.connect(url))
            writers[-1].execute("INSERT INTO t (n) VALUES (%s)", [-1])
            writers[-2].commit()
            found += stream.rows()
        assert [row["n"] for row in found if row["n"] >= 0][:2] == [0, 1]
    finally:
        for writer in writers:
            writer.close()


@pytest.mark.parametrize(
    ("how", "leaf"),
    [
        ("PARTITION BY RANGE (n)", "PARTITION OF t FOR VALUES FROM (0) TO (9)"),
        ("", "() INHERITS (t)"),
    ],
)
def test_a_writer_to_a_part_of_a_table_is_waited_for(
    url: str, database: Database, how: str, leaf: str
) -> None:
    database.execute(f"CREATE TABLE t (id serial, n int) {how}; CREATE TABLE leaf {leaf}".encode())
    stream = Stream(url, key="id", awaitWriters="true")
    with psycopg.connect(url) as late:
        late.execute("INSERT INTO leaf (id, n) VALUES (nextval('t_id_seq'), 1)")
        database.execute("INSERT INTO t (n) VALUES (2)")
        assert stream.rows() == []
        late.commit()
    assert sorted(row["n"] for row in stream.rows()) == [1, 2]


def test_a_writer_to_the_root_of_a_partition_is_waited_for(url: str, database: Database) -> None:
    """It takes a key before it locks the partition."""
    database.execute("CREATE TABLE t (id serial, n int) PARTITION BY RANGE (n)")
    database.execute("CREATE TABLE leaf PARTITION OF t FOR VALUES FROM (0) TO (9)")
    stream = Stream(url, table="leaf", key="id", awaitWriters="true")
    with psycopg.connect(url) as late:
        late.execute("LOCK TABLE ONLY t IN ROW EXCLUSIVE MODE; SELECT nextval('t_id_seq')")
        database.execute("INSERT INTO leaf (id, n) VALUES (nextval('t_id_seq'), 2)")
        assert stream.rows() == []
        late.execute("INSERT INTO t VALUES (1, 1)")
    assert sorted(row["n"] for row in stream.rows()) == [1, 2]


def test_a_writer_that_is_prepared_when_the_server_restarts_is_waited_for() -> None:
    """It has another number then. `4/17` is that of a session, which is gone."""
    still_there = inserted._still_there
    assert still_there({"4/17", "4/18"}, {"4/18", "4/19"}) == {"4/18"}
    assert still_there({"4/17"}, {"-1/700", "4/19"}) == {"-1/700"}
    assert still_there({"4/17"}, {"-1/700", "4/17"}) == {"4/17"}


def test_who_writes_to_a_copy_of_the_database_is_not_waited_for(
    postgres: Postgres, url: str
) -> None:
    """Its tables have the same oids."""
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE t (id serial PRIMARY KEY); INSERT INTO t DEFAULT VALUES")
    copy = new_database(postgres, f"TEMPLATE {conninfo_to_dict(url)['dbname']}")
    with psycopg.connect(copy) as writer:
        writer.execute("INSERT INTO t DEFAULT VALUES")
        assert Stream(url, key="id", awaitWriters="true").rows() == [{"id": 1}]
    drop_database(postgres, copy)


def test_nobody_sees_who_writes_to_a_view(url: str, database: Database) -> None:
    database.execute("CREATE TABLE base (id serial PRIMARY KEY)")
    database.execute("CREATE VIEW t AS SELECT * FROM base")
    with pytest.raises(FunctionError, match="`table` must be a table, no view"):
        Stream(url, key="id", awaitWriters="true").rows()


def test_a_limit_counts_rows_whatever_the_gaps(url: str, database: Database) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT n::bigint * 1000000000 AS id FROM generate_series(-3, 9) AS n"
    )
    stream = Stream(url, key="id", maxRowsPerTrigger=5)
    assert [len(stream.rows()) for _ in range(4)] == [5, 5, 3, 0]


def test_a_limit_does_not_hold_back_rows_with_the_same_key(url: str, database: Database) -> None:
    """Of each key there are more than a batch may have."""
    database.execute("CREATE TABLE t AS SELECT n / 4 AS id FROM generate_series(0, 10) AS n")
    stream = Stream(url, key="id", maxRowsPerTrigger=3)
    assert [len(stream.rows()) for _ in range(4)] == [4, 4, 3, 0]


def test_the_largest_key_of_all(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (-9223372036854775808), (1), (9223372036854775807)")
    stream = Stream(url, key="id", maxRowsPerTrigger=2)
    assert [len(stream.rows()) for _ in range(3)] == [2, 1, 0]


def test_a_table_is_known_by_what_it_is_and_not_by_its_name(url: str, database: Database) -> None:
    """However the option spells it; one that is made again begins with its keys anew."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, key="id")
    database.execute("INSERT INTO t VALUES (5), (6)")
    start, before = stream.offset, stream.rows()
    database.execute("INSERT INTO t VALUES (7)")
    for offset, name in ((stream.offset, '"public".t'), ({"t": 7}, "t")):  # of an earlier version
        again = Stream(url, offset, key="id", table=name)
        assert again.rows() + again.rows() == [{"id": 7}]
    database.execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (9)")
    text = "LookupError: table `t` was dropped and made again: rows may be lost"
    for read in (stream.rows, lambda: stream.read(start, stream.offset)):
        with pytest.raises(FunctionError, match=text):
            read()
    going_on = Stream(url, stream.offset, key="id", failOnDataLoss="false")
    assert len(before) == 2 and going_on.rows() == [] and going_on.rows() == [{"id": 9}]
    assert going_on.read(start, stream.offset) == []


def test_a_search_path_that_leads_to_another_table_ends_the_query(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE SCHEMA other")
    name = f"s_{url[-8:]}"
    inserted_rows, changes = Stream(url, key="id"), Stream(url, slot=name)
    inserted_rows.rows()
    database.execute("CREATE TABLE other.t (id int PRIMARY KEY); INSERT INTO other.t VALUES (1)")
    elsewhere = make_conninfo(url, options="-c search_path=other,public")
    with pytest.raises(FunctionError, match="LookupError: table `t` was dropped and made again"):
        Stream(elsewhere, inserted_rows.offset, key="id").rows()
    with pytest.raises(FunctionError, match="does not have table `t`: one of them was dropped"):
        Stream(elsewhere, changes.offset, slot=name).rows()


@since_4_2
def test_available_now_waits_for_writers_with_a_bound(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id serial PRIMARY KEY)")
    stream = Stream(url, key="id", awaitWriters="true", waitSeconds=1)
    stream.reader.prepareForTriggerAvailableNow()
    with psycopg.connect(url) as writer:
        writer.execute("INSERT INTO t DEFAULT VALUES")
        with pytest.raises(FunctionError, match="has been writing to `t` for more than 1 s"):
            stream.rows()


def test_a_stream_wants_a_key_of_whole_numbers(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int, x text)")
    for given, error in (
        ({}, "wants to know its `key`"),
        ({"key": "x"}, "must be a column of whole"),
    ):
        with pytest.raises(FunctionError, match=f"ValueError: .*{error}"):
            Stream(url, **given)


def test_a_key_that_has_fractions_now_is_an_error(url: str, database: Database) -> None:
    """Between two whole numbers nobody would look."""
    database.execute("CREATE TABLE t (n bigint); INSERT INTO t VALUES (1)")
    stream = Stream(url, key="n")
    assert [row["n"] for row in stream.rows()] == [1]
    database.execute("ALTER TABLE t ALTER n TYPE numeric; INSERT INTO t VALUES (2.5)")
    with pytest.raises(FunctionError, match=r"ValueError: .*`n` .* no whole numbers any more"):
        stream.rows()


# ---- Changes -------------------------------------------------------------------------------------


def test_changes_have_key_before_and_after(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    stream = Stream(url, slot="s1_" + url[-8:])
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    database.execute("UPDATE t SET x = 'c' WHERE id = 1")
    database.execute("UPDATE t SET id = 3 WHERE id = 2")
    database.execute("DELETE FROM t WHERE id = 1")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET x = NULL; TRUNCATE t")
    found = [
        (r["operation"], r["key"] and r["key"]["id"], r["before"], r["after"])
        for r in stream.rows()
    ]
    assert found == [
        ("insert", 1, None, {"id": 1, "x": "a"}),
        ("insert", 2, None, {"id": 2, "x": "b"}),
        ("update", 1, None, {"id": 1, "x": "c"}),
        ("update", 3, {"id": 2, "x": None}, {"id": 3, "x": "b"}),
        ("delete", 1, {"id": 1, "x": None}, None),
        ("update", 3, {"id": 3, "x": "b"}, {"id": 3, "x": None}),
        ("truncate", None, None, None),
    ]
    assert stream.rows() == []


def test_all_types_in_changes(url: str, database: Database) -> None:
    create, kind, *rest = TYPED.split(";\n")
    database.execute(create)
    database.execute(kind)
    database.execute("ALTER TABLE t ADD id serial PRIMARY KEY")
    stream = Stream(url, slot="s2_" + url[-8:])
    for statement in rest:
        database.execute(statement)
    full, empty = (row["after"] for row in stream.rows())
    assert full == {**VALUES, "id": 1}
    assert empty == {**dict.fromkeys(VALUES), "id": 2}


def test_changes_are_kept_until_spark_has_committed_them(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    name = "s3_" + url[-8:]
    stream = Stream(url, slot=name)
    offsets, batches = [stream.offset], []
    for number in range(3):
        database.execute("INSERT INTO t VALUES (%s)", [number])
        batches.append(stream.rows())
        offsets.append(stream.offset)
    again = Stream(url, slot=name, offset=offsets[0])
    for start, end, rows in zip(offsets, offsets[1:], batches, strict=False):
        assert again.read(start, end) == rows and len(rows) == 1
    stream.reader.commit(offsets[2])
    assert again.read(offsets[2], offsets[3]) == batches[2]
    with pytest.raises(FunctionError, match="has let go of changes that this query has not read"):
        again.read(offsets[1], offsets[2])


def test_a_snapshot_and_the_changes_after_it_have_every_row_once(
    url: str, database: Database
) -> None:
    """Rows are written all the time while the snapshot is taken."""
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, x text)")
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO t (x) VALUES ('x')")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_for(database, 50)
        name = "s4_" + url[-8:]
        stream = Stream(url, slot=name, snapshot="true", maxRowsPerTrigger=40)
        wait_for(database, 150)
    finally:
        stop.set()
        writer.join()
    found: list[dict[str, Any]] = []
    while rows := stream.rows():
        found += rows
    [(total,)] = database.execute("SELECT count(*) FROM t").fetchall()
    assert [row["after"]["id"] for row in found if row["operation"] == "snapshot"][:3] == [1, 2, 3]
    assert sorted(row["key"]["id"] for row in found) == list(range(1, total + 1))
    assert {row["operation"] for row in found} == {"snapshot", "insert"}
    stream.reader.commit(stream.offset)
    assert database.execute("SELECT FROM pg_class WHERE relname LIKE 'spark_snap%'").rowcount == 0


@pytest.mark.parametrize("read_before", [0, 2])
def test_a_slot_that_was_made_again_does_not_go_on_with_the_snapshot(
    url: str, database: Database, read_before: int
) -> None:
    """What was written between the two slots is in neither the snapshot nor the changes."""
    database.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 20) AS n")
    database.execute("ALTER TABLE t ADD PRIMARY KEY (n)")
    given = {"slot": f"s_{url[-8:]}", "snapshot": "true", "maxRowsPerTrigger": 5}
    stream = Stream(url, **given)
    for _ in range(read_before):
        assert stream.rows()
    database.execute("INSERT INTO t VALUES (21)")
    database.execute("SELECT pg_drop_replication_slot(%s)", [given["slot"]])
    make = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
    database.execute(make, [given["slot"]])
    with pytest.raises(FunctionError, match=r"RuntimeError: .* let go of changes .* not read"):
        again = Stream(url, stream.offset if read_before else None, **given)
        while again.rows():
            pass


def test_a_snapshot_of_columns_that_are_called_as_in_our_statement(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, total int, counted int, source int)")
    database.execute("INSERT INTO t VALUES (1, 2, 3, 4)")
    [row] = Stream(url, slot=f"s_{url[-8:]}", snapshot="true").rows()
    assert row["after"] == {"id": 1, "total": 2, "counted": 3, "source": 4}


def test_no_policy_hides_rows_of_a_snapshot(url: str, database: Database) -> None:
    """The changes after it would have them."""
    name = conninfo_to_dict(url)["dbname"]
    role = f"role_{name}"
    database.execute(
        f"CREATE ROLE {role} REPLICATION; CREATE SCHEMA s AUTHORIZATION {role}".encode()
    )
    database.execute(f"GRANT CREATE ON DATABASE {name} TO {role}; SET ROLE {role}".encode())
    database.execute("CREATE TABLE s.t (id int PRIMARY KEY); INSERT INTO s.t VALUES (1), (2)")
    database.execute("ALTER TABLE s.t FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY")
    database.execute("CREATE POLICY odd ON s.t USING (id % 2 = 1)")
    by_role = make_conninfo(url, options=f"-c role={role}")
    assert batch(by_role, table="s.t") == [[{"id": 1}]]
    with pytest.raises(FunctionError, match="would be affected by row-level security policy for t"):
        Stream(by_role, table="s.t", slot=f"s_{url[-8:]}", snapshot="true")
    look = "SELECT FROM pg_replication_slots WHERE database = current_database()"
    wait_until(lambda: not database.execute(look).rowcount, 30, "the end of the slot")


def test_nobody_rewrites_a_table_while_its_snapshot_is_taken(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a view of the table from before, it would be empty."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    database.execute("SET lock_timeout = '50ms'")
    copy_table = slot._copy_table

    def alter_and_copy(*given: Any) -> None:
        with suppress(psycopg.errors.LockNotAvailable):
            database.execute("ALTER TABLE t ALTER id TYPE bigint")
        copy_table(*given)

    monkeypatch.setattr(slot, "_copy_table", alter_and_copy)
    stream = Stream(url, slot=f"s_{url[-8:]}", snapshot="true")
    assert [row["after"] for row in stream.rows()] == [{"id": 1}]


@pytest.mark.parametrize("snapshot", ["false", "true"])
def test_a_slot_waits_for_who_is_writing_with_a_bound(
    url: str, database: Database, snapshot: str
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int)")
    with psycopg.connect(url) as writer:
        writer.execute("INSERT INTO other VALUES (1)")
        with pytest.raises(FunctionError, match=r"TimeoutError: no slot can be made as long as a"):
            Stream(url, slot=f"s_{url[-8:]}", snapshot=snapshot, waitSeconds=1)


def test_a_slot_that_is_still_being_made(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int)")
    name = f"s_{url[-8:]}"
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as maker:
        writer.execute("INSERT INTO other VALUES (1)")
        make = f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"
        maker.pgconn.send_query(make.encode())
        look = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND plugin = 'pgoutput'"
        wait_until(lambda: database.execute(look, [name]).rowcount, 30, "the slot")
        with pytest.raises(FunctionError, match=r"ValueError: .* is still being made"):
            Stream(url, slot=name)
        writer.rollback()
        while maker.pgconn.get_result():  # else nobody could drop the slot
            pass


def wait_for(database: Database, count: int) -> None:
    end = time.monotonic() + 30
    while database.execute("SELECT FROM t").rowcount < count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_task_waits_for_a_slot_that_somebody_else_still_reads(
    url: str, database: Database
) -> None:
    """A driver that was killed is noticed by its server only a moment later."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    name = "s9_" + url[-8:]
    stream = Stream(url, slot=name)
    database.execute("INSERT INTO t VALUES (1)")
    start = stream.offset
    end = stream.reader.latestOffset(start, ALL)
    other = psycopg.connect(url, autocommit=True, replication="database")
    names = f"(proto_version '1', publication_names '{name}')"
    text = f"START_REPLICATION SLOT {name} LOGICAL 0/0 {names}"
    assert other.pgconn.exec_(text.encode()).status == psycopg.pq.ExecStatus.COPY_BOTH
    leaving = threading.Timer(1, other.close)
    leaving.start()
    try:
        assert [row["operation"] for row in stream.read(start, end)] == ["insert"]
    finally:
        leaving.join()


def test_a_slot_that_was_dropped_is_an_error(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    name = "s5_" + url[-8:]
    stream = Stream(url, slot=name)
    assert stream.rows() == []  # the first batch, which says where the query begins
    database.execute("SELECT pg_drop_replication_slot(%s)", [name])
    database.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(FunctionError, match=f'slot `{name}` is gone|slot "{name}" does not exist'):
        stream.rows()
    old = stream.offset
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    database.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(FunctionError, match="made it anew"):
        Stream(url, slot=name, offset=old).rows()


def test_a_slot_that_is_let_go_of_when_a_task_begins_to_read_is_an_error(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another query that has the same slot."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    name = "s17_" + url[-8:]
    stream = Stream(url, slot=name)
    stream.rows()
    start = stream.offset
    database.execute("INSERT INTO t VALUES (1)")
    end = stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())
    peeking = slot._peeking

    def let_go_before(*given: Any) -> Any:
        advance = "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())"
        database.execute(advance, [name])
        return peeking(*given)

    monkeypatch.setattr(slot, "_peeking", let_go_before)
    with pytest.raises(FunctionError, match=f"slot `{name}` has let go of changes"):
        stream.read(start, end)


def test_a_table_that_is_altered_while_the_query_runs(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text, y text)")
    stream = Stream(url, slot="s6_" + url[-8:])
    database.execute("ALTER TABLE t ADD z int; INSERT INTO t VALUES (1, 'a', 'b', 2)")
    assert stream.rows()[0]["after"] == {"id": 1, "x": "a", "y": "b"}
    database.execute("ALTER TABLE t DROP y; INSERT INTO t VALUES (2, 'a', 2)")
    with pytest.raises(FunctionError, match=r"table `t` has lost the columns \['y'\]"):
        stream.rows()


def test_changes_from_before_a_column_was_added_have_a_null_there(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    given = {"slot": "s15_" + url[-8:], "snapshot": "true", "maxRowsPerTrigger": 1}
    stream = Stream(url, **given)
    assert [row["after"] for row in stream.rows()] == [{"id": 1, "x": "a"}]
    database.execute("INSERT INTO t VALUES (3, 'c'); UPDATE t SET x = 'd' WHERE id = 3")
    database.execute("ALTER TABLE t ADD y int[] NOT NULL DEFAULT '{5}'")
    database.execute("INSERT INTO t VALUES (4, 'e', '{6}')")
    stream = Stream(url, stream.offset, **given)
    assert [row["after"] for _ in range(5) for row in stream.rows()] == [
        {"id": 2, "x": "b", "y": None},  # of the snapshot
        {"id": 3, "x": "c", "y": None},
        {"id": 3, "x": "d", "y": None},
        {"id": 4, "x": "e", "y": [6]},
    ]


@pytest.mark.parametrize("snapshot", [True, False])
def test_changes_from_before_a_column_was_renamed_are_no_nulls(
    url: str, database: Database, snapshot: bool
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    given = {"slot": "s16_" + url[-8:], "snapshot": snapshot, "maxRowsPerTrigger": 1}
    stream = Stream(url, **given)
    stream.rows()
    database.execute("INSERT INTO t VALUES (3, 'c'); ALTER TABLE t RENAME x TO y")
    with pytest.raises(FunctionError, match=r"table `t` has lost the columns \['y'\]"):
        Stream(url, stream.offset, **given).rows()


def test_a_primary_key_that_is_another_one_ends_the_query(url: str, database: Database) -> None:
    """By the old one, rows of two tenants would be the same row."""
    database.execute("CREATE TABLE t (tenant int, id int PRIMARY KEY)")
    name = "s12_" + url[-8:]
    stream = Stream(url, slot=name)
    database.execute("INSERT INTO t VALUES (1, 1)")
    assert [row["key"] for row in stream.rows()] == [{"id": 1}]
    database.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (tenant, id)")
    database.execute("INSERT INTO t VALUES (2, 1)")
    with pytest.raises(FunctionError, match=r"primary key \['tenant', 'id'\], and it was \['id'\]"):
        stream.rows()
    again = Stream(url, stream.offset, slot=name)
    assert [row["key"] for row in again.rows()] == [{"tenant": 2, "id": 1}]


def test_a_large_value_that_an_update_left_alone(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text, n int)")
    database.execute("ALTER TABLE t ALTER x SET STORAGE EXTERNAL")
    database.execute("INSERT INTO t VALUES (1, repeat('x', 10000), 0)")
    name = "s7_" + url[-8:]
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    stream = Stream(url, slot=name)
    database.execute("UPDATE t SET n = 1")
    [row] = stream.rows()
    assert len(row["after"]["x"]) == 10_000
    database.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    database.execute("UPDATE t SET n = 2")
    with pytest.raises(FunctionError, match="column `x` of an UPDATE of `t` was left alone"):
        stream.rows()


def test_a_delete_that_does_not_tell_the_primary_key(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, mail text NOT NULL UNIQUE)")
    database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_mail_key")
    stream = Stream(url, slot=f"s_{url[-8:]}")
    database.execute("INSERT INTO t VALUES (1, 'a'); UPDATE t SET mail = 'b'")
    assert [row["key"] for row in stream.rows()] == [{"id": 1}, {"id": 1}]
    database.execute("DELETE FROM t")
    with pytest.raises(FunctionError, match=r"change in `t` does not tell the primary key .* REPL"):
        stream.rows()


def test_other_tables_do_not_hold_the_log_for_ever(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
    stream = Stream(url, slot="s8_" + url[-8:])
    assert stream.rows() == []
    before = dict(stream.offset)
    assert stream.rows() == [] and stream.offset == before
    database.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
    assert stream.rows() == []
    assert next(iter(stream.offset.values())) > next(iter(before.values())) + (16 << 20)


CHANGED = {
    "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY)": "does not have table `t`: one of them was",
    "DROP PUBLICATION {0}": "does not have table `t`: one of them was dropped",
    "DROP PUBLICATION {0}; CREATE PUBLICATION {0} FOR TABLE t": "or the publication `.*` was made",
    "ALTER PUBLICATION {0} SET TABLE t WHERE (id > 5)": "does not publish insert, .* of all rows",
    "ALTER PUBLICATION {0} SET (publish = 'insert')": "does not publish insert, update, delete and",
    "CREATE TABLE kid (x int) INHERITS (t)": "all rows of `t`, from which other tables inherit",
    "CREATE TABLE other (id int PRIMARY KEY); ALTER PUBLICATION {0} ADD TABLE other": "for other t",
}


@pytest.mark.parametrize("change", CHANGED)
def test_changes_that_are_not_all_in_the_log_end_the_query(
    url: str, database: Database, change: str
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, slot=f"s_{url[-8:]}")
    assert stream.rows() == []
    database.execute(change.format(f"s_{url[-8:]}").encode())
    database.execute("INSERT INTO t VALUES (1)")
    restarted = Stream(url, stream.offset, slot=f"s_{url[-8:]}")
    for each in (stream, restarted):
        with pytest.raises(FunctionError, match=CHANGED[change]):
            each.rows()


@pytest.mark.parametrize("some", ["WHERE (id > 5)", "(id, a)"])
def test_a_publication_of_some_rows_or_columns_is_refused(
    url: str, database: Database, some: str
) -> None:
    """Made by somebody before the query is; a column that it leaves out would be null."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    name = f"s_{url[-8:]}"
    database.execute(f"CREATE PUBLICATION {name} FOR TABLE t {some}".encode())
    with pytest.raises(FunctionError, match=r"not publish insert, .* of all rows and columns"):
        Stream(url, slot=name)


IDENTITIES = [
    "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)",
    "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
    "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL UNIQUE);"
    "ALTER TABLE t REPLICA IDENTITY USING INDEX t_n_key; ALTER TABLE t DROP n",
    "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id);"
    "CREATE TABLE a PARTITION OF t DEFAULT; ALTER TABLE a REPLICA IDENTITY NOTHING",
]


@pytest.mark.parametrize("table", IDENTITIES)
def test_a_table_that_nobody_could_update_any_more_is_not_published(
    url: str, database: Database, table: str
) -> None:
    database.execute(table.encode())
    with pytest.raises(FunctionError, match="of `t` would have the server refuse every UPDATE"):
        Stream(url, slot=f"s_{url[-8:]}")
    assert not database.execute("SELECT FROM pg_publication").rowcount


def test_a_part_of_a_table_of_which_the_log_has_nothing_is_refused(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE a PARTITION OF t FOR VALUES FROM (0) TO (10)")
    stream = Stream(url, slot=f"s_{url[-8:]}")
    database.execute("INSERT INTO t VALUES (1)")
    assert len(stream.rows()) == 1
    database.execute("CREATE UNLOGGED TABLE b PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute("INSERT INTO t VALUES (11)")
    with pytest.raises(FunctionError, match="of `t`: a partition is UNLOGGED, or a foreign table"):
        stream.rows()


@pytest.mark.parametrize("change", list(CHANGED)[:2])
def test_a_slot_without_its_publication_gets_no_new_one(
    url: str, database: Database, change: str
) -> None:
    """With a new checkpoint: what was written meanwhile would be missing."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    name = f"s_{url[-8:]}"
    Stream(url, slot=name)
    database.execute(change.format(name).encode())
    database.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(FunctionError, match=r"does not have table `t`.*SELECT pg_drop_repl"):
        Stream(url, slot=name)


@pytest.mark.parametrize("others", [0, 20_000])
def test_changes_without_a_publication_are_reported_to_a_new_checkpoint(
    url: str, database: Database, others: int
) -> None:
    """The server passes over them, with a warning; to the task, if so much is read unseen."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
    name = f"s_{url[-8:]}"
    Stream(url, slot=name)
    database.execute(f"DROP PUBLICATION {name}; INSERT INTO t VALUES (1)".encode())
    database.execute(f"CREATE PUBLICATION {name} FOR TABLE t; INSERT INTO t VALUES (2)".encode())
    fill = "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, %s)"
    database.execute(fill, [others])
    with pytest.raises(FunctionError, match=f"LookupError: there was no publication `{name}` when"):
        Stream(url, slot=name).rows()
    going_on = Stream(url, slot=name, failOnDataLoss="false")
    assert [row["after"] for row in going_on.rows()] == [{"id": 2}]


def test_an_earlier_version_s_checkpoint_of_changes(url: str, database: Database) -> None:
    """It names the slot alone."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    name = f"s_{url[-8:]}"
    Stream(url, slot=name)
    [[position]] = database.execute(CONFIRMED, [name]).fetchall()
    database.execute("INSERT INTO t VALUES (1)")
    stream = Stream(url, {name: position}, slot=name)
    found = stream.rows() + stream.rows()
    assert [row["after"]["id"] for row in found] == [1]
    stream.reader.commit(stream.offset)
    assert database.execute(CONFIRMED, [name]).fetchall() > [(position,)]
    database.execute(f"DROP PUBLICATION {name}; CREATE PUBLICATION {name} FOR TABLE t".encode())
    with pytest.raises(FunctionError, match=r"LookupError: .* was made again"):
        stream.rows()


CONFIRMED = """SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots
    WHERE slot_name = %s"""


def test_a_slot_that_is_no_use_is_told_with_a_remedy(
    postgres: Postgres, url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    ending = url[-8:]
    database.execute("SELECT pg_create_physical_replication_slot(%s)", [f"physical_{ending}"])
    early = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', twophase => true)"
    database.execute(early, [f"early_{ending}"])
    Stream(url, slot=f"lost_{ending}")
    other = new_database(postgres)
    with psycopg.connect(other, autocommit=True) as elsewhere:
        make = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
        elsewhere.execute(make, [f"far_{ending}"])
    with given_up(database, f"lost_{ending}"):
        for name, error in {
            f"physical_{ending}": "is a physical one, without changes of tables; choose another",
            f"far_{ending}": "is of database test_.*; choose another `slot`",
            f"lost_{ending}": "was given up by the server: .* SELECT pg_drop_replication_slot",
            f"early_{ending}": "has transactions before their COMMIT PREPARED.*; choose another",
        }.items():
            with pytest.raises(FunctionError, match=error):
                Stream(url, slot=name)
    drop_database(postgres, other)
    database.execute("SELECT pg_drop_replication_slot(%s)", [f"physical_{ending}"])


@contextmanager
def given_up(database: Database, name: str) -> Iterator[None]:
    """The server keeps no log for slots, and forgets what this one needs."""
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


def test_a_server_that_was_restored_is_another_one(url: str, database: Database) -> None:
    """Its log is behind what the query has read, and would be passed over."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream = Stream(url, slot=f"s_{url[-8:]}")
    stream.rows()
    later = {split: position + 10**15 for split, position in stream.offset.items() if split}
    with pytest.raises(FunctionError, match=r"this query has read up to .*: it is another server"):
        Stream(url, later, slot=f"s_{url[-8:]}").rows()


def test_columns_that_the_log_has_not_or_calls_otherwise(url: str, database: Database) -> None:
    """Generated ones, and those of domains."""
    database.execute("CREATE DOMAIN whole AS int; CREATE DOMAIN list AS float8[]")
    database.execute(
        "CREATE TABLE t (id whole PRIMARY KEY, more int GENERATED ALWAYS AS (id + 1) STORED, "
        "many list, at date)"
    )
    stream = Stream(url, slot=f"s_{url[-8:]}")
    database.execute("INSERT INTO t VALUES (5, DEFAULT, '{1.5}')")
    assert [row["after"] for row in stream.rows()] == [{"id": 5, "many": [1.5], "at": None}]
    database.execute("ALTER TABLE t ALTER at TYPE timestamp; INSERT INTO t (id) VALUES (6)")
    with pytest.raises(
        FunctionError, match=r"`t` has lost the columns \['at'\] since .* or they h"
    ):
        stream.rows()


# ---- What others have set ------------------------------------------------------------------------


def test_values_do_not_depend_on_how_a_database_is_set_up(unusual_url: str) -> None:
    columns = "id int PRIMARY KEY, x text, f float8, y bytea, d date, tz timestamptz, iv interval"
    row = {
        "id": 1,
        "x": "Zürich",
        "f": 0.1 + 0.2,
        "y": b"\0\xff",
        "d": date(2026, 2, 28),
        "tz": datetime(2026, 2, 28, 0, 2, 3, tzinfo=UTC),
        "iv": "1 day 02:00:00",
    }
    with psycopg.connect(unusual_url, autocommit=True, client_encoding="UTF8") as database:
        database.execute(f"CREATE TABLE t ({columns})".encode())
        changes = Stream(unusual_url, slot=f"s_{unusual_url[-8:]}")
        database.execute("SET DateStyle = ISO; SET IntervalStyle = postgres")
        database.execute("SET synchronous_commit = on")  # what is not on disk is no change yet
        database.execute(
            "INSERT INTO t VALUES (1, 'Zürich', 0.30000000000000004, decode('00ff', 'hex'), "
            "'2026-02-28', '2026-02-28 01:02:03+01', '1 day 02:00')"
        )
    assert batch(unusual_url) == [[row]]
    assert Stream(unusual_url, key="id").rows() == [row]
    assert [change["after"] for change in changes.rows()] == [row]


def test_quotes_around_each_name_do_not_make_other_numbers(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client would not know the types, and take the bytes of this number for digits: 1234."""
    database.execute("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 825373492 AS n")
    name = conninfo_to_dict(url)["dbname"]
    database.execute(f"ALTER DATABASE {name} SET quote_all_identifiers = on".encode())
    monkeypatch.setenv("PGOPTIONS", "-c search_path=s")
    assert batch(url) == [[{"n": 825373492}]]
    assert batch(make_conninfo(url, options="-csearch_path=s")) == [[{"n": 825373492}]]


def test_what_we_rely_on_is_set_in_every_connection(unusual_url: str) -> None:
    expected = {**UNUSUAL, **connection.SETTINGS, "client_encoding": "UTF8", "lock_timeout": "5s"}
    names = ", ".join(f"current_setting('{name}') AS \"{name}\"" for name in expected)
    values = Options(FORMAT, READ).parse({"url": unusual_url, "waitSeconds": "5"})
    for more in ({}, {"replication": "database"}):
        with connection.connect(values, **more) as database:
            found = next(iter(database.execute(f"SELECT {names}".encode())))
            assert dict(zip(expected, found, strict=True)) == expected
    data_source = PostgresDataSource({"url": unusual_url, "query": f"SELECT {names}"})
    reader = data_source.reader(data_source.schema())
    [row] = [row for part in reader.partitions() for row in rows_of(reader.read(part))]
    assert row | {"lock_timeout": "5s"} == expected


# ---- A server that is away, and secrets ----------------------------------------------------------


def test_a_database_that_is_away_is_waited_for_and_then_an_error(
    postgres: Postgres, url: str
) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE t (id int)")
    postgres.kill()
    try:
        with pytest.raises(
            ConnectionError, match=r"no database after 1 s \(option `waitSeconds`\)"
        ):
            source(url, waitSeconds=1).schema()
        back = threading.Timer(0.5, postgres.restart)
        back.start()
        assert source(url, waitSeconds=60).schema().names == ["id"]
        back.join()
    finally:
        if back.is_alive():
            back.join()
