"""Format `postgres` in real queries: a server that is killed, and secrets that nobody sees."""

from __future__ import annotations

import json
import os
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tests.services.databases import new_database
from tests.soak import few_or_many
from tutorial_pkg import PostgresDataSource, last_error
from workbook.services import Postgres

PASSWORD = """a'b "c@d%/:e f\\"""
SECONDS = 100

# ---- A server that is killed ---------------------------------------------------------------------


class Kept:
    """A query that is started again when an error has ended it, as a service's keeper would."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self.errors: list[str] = []
        self._query = start()

    def keep_up(self) -> None:
        if not self._query.isActive:
            self.errors.append(str(last_error(self._query)))
            self._query = self._start()

    def stop(self) -> None:
        self._query.stop()


def values(url: str, table: str) -> Counter[str]:
    with psycopg.connect(url) as database:
        return Counter(v for (v,) in database.execute(f"SELECT value FROM {table}".encode()))


def has_slot(url: str, name: str) -> bool:
    with psycopg.connect(url) as database:
        look = "SELECT FROM pg_replication_slots WHERE slot_name = %s"
        return database.execute(look, [name]).rowcount == 1


@few_or_many("kills", 1, 10)
def test_a_killed_server_loses_nothing_and_repeats_nothing(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, kills: int
) -> None:
    """Lines go into one table, and its changes into another one."""
    url, lines = new_database(postgres), tmp_path / "lines.txt"
    lines.touch()
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE first (id SERIAL PRIMARY KEY, value TEXT)")
        database.execute("CREATE TABLE second (value TEXT)")
    reader = spark.readStream.format("postgres").options(url=url, table="first", slot="killed")

    def write(name: str, frame: Callable[[], DataFrame]) -> Kept:
        def start() -> StreamingQuery:
            writer = frame().writeStream.format("postgres").options(url=url, table=name)
            return writer.option("checkpointLocation", str(tmp_path / name)).start()

        return Kept(start)

    queries = [
        write("first", lambda: spark.readStream.format("file_lines").load(str(lines))),
        write("second", lambda: reader.load().select("after.value")),
    ]
    # The query's first batch makes the slot, and what was written before is no change.
    wait_until(lambda: has_slot(url, "killed"), SECONDS, "the slot")
    sent: list[str] = []

    def send(count: int) -> None:
        more = [str(number) for number in range(len(sent), len(sent) + count)]
        sent.extend(more)
        with lines.open("a") as file:
            file.write("".join(f"{value}\n" for value in more))

    def arrived(table: str) -> bool:
        for query in queries:
            query.keep_up()
        return len(values(url, table)) == len(sent)

    send(100)
    wait_until(lambda: arrived("second"), SECONDS, "the first lines in both tables")
    for _ in range(kills):
        send(2000)
        wait_until(lambda: len(values(url, "first")) > len(sent) - 2000, SECONDS, "some of them")
        send(2000)
        postgres.kill()
        postgres.restart()
    for table in ("first", "second"):
        wait_until(lambda table=table: arrived(table), SECONDS, f"all lines in {table}")
        assert values(url, table) == Counter(sent)
    for query in queries:
        query.stop()
    print("errors on the way:", [error for query in queries for error in query.errors])


# ---- Secrets -------------------------------------------------------------------------------------


@pytest.fixture
def locked(postgres: Postgres, service_folder: Path) -> Iterator[str]:
    """A database that one role reaches only with its password; where it is, without that."""
    url = new_database(postgres)
    rules = service_folder / "postgres" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(url, autocommit=True) as database:
        quoted = PASSWORD.replace("'", "''")
        database.execute(f"CREATE ROLE locked LOGIN PASSWORD '{quoted}'".encode())
        database.execute("GRANT ALL ON SCHEMA public TO locked")
        rules.write_text(f"local all locked scram-sha-256\n{before}")
        database.execute("SELECT pg_reload_conf()")
        yield make_conninfo(url, user="locked")
        rules.write_text(before)
        database.execute("SELECT pg_reload_conf()")
        database.execute("DROP OWNED BY locked; DROP ROLE locked")


def ways_to_say_it(url: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[dict[str, str]]:
    parts = conninfo_to_dict(url)
    coded = urllib.parse.quote(PASSWORD, safe="")
    address = f"postgresql://locked:{coded}@/{parts['dbname']}?host={parts['host']}"
    service = folder / "services.conf"
    service.write_text(f"[mine]\nhost={parts['host']}\nuser=locked\ndbname={parts['dbname']}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("MY_PASSWORD", PASSWORD)
    return [
        {"url": url, "password": PASSWORD},
        {"url": address},
        {"service": "mine", "password": "${env:MY_PASSWORD}"},
    ]


def test_the_password_works_and_is_nowhere_to_be_seen(
    spark: SparkSession,
    locked: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with psycopg.connect(locked, password=PASSWORD, autocommit=True) as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (7)")
        database.execute("CREATE TABLE u (id int)")
    seen = []
    for number, given in enumerate(ways_to_say_it(locked, monkeypatch, tmp_path)):
        if "service" in given:  # Spark has the environment that it was started with: without it
            assert PostgresDataSource({"table": "t", **given}).schema().names == ["id"]
            continue
        rows = spark.read.format("postgres").options(table="t", **given).load()
        assert [row.id for row in rows.collect()] == [7]
        rows.explain(True)
        stream = spark.readStream.format("postgres").options(table="t", key="id", **given).load()
        writer = stream.writeStream.format("postgres").options(table="u", **given)
        writer = writer.option("checkpointLocation", str(tmp_path / str(number)))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS)
        query.explain(True)
        seen += [str(progress) for progress in query.recentProgress]
        for wrong in ({"mode": "upsert"}, {"table": "nothing"}, {"noSuchOption": "1"}):
            with pytest.raises(PySparkException) as caught:
                spark.read.format("postgres").options(**{"table": "t", **given, **wrong}).load()
            seen += [str(caught.value), str(last_error(caught.value))]
    seen += [*capfd.readouterr(), user_interface(spark)]
    for name in ("offsets", "commits", "metadata"):
        seen += [
            file.read_text(errors="replace")
            for file in tmp_path.rglob(f"{name}/*")
            if file.is_file()
        ]
    seen.append(Path(f".work/logs/spark-{os.getpid()}.log").read_text(errors="replace"))
    coded = urllib.parse.quote(PASSWORD, safe="")
    found = [text for text in seen if PASSWORD in text or coded in text]
    assert found == []
    assert "postgres" in "".join(seen).lower()  # it did look at the right texts


def user_interface(spark: SparkSession) -> str:
    """What Spark's web pages and their REST interface say about all queries."""
    base = spark.sparkContext.uiWebUrl
    application = spark.sparkContext.applicationId
    pages = [
        "/SQL/",
        "/StreamingQuery/",
        "/environment/",
        f"/api/v1/applications/{application}/sql",
    ]
    count = len(json.loads(fetched(f"{base}{pages[-1]}")))
    pages += [f"/SQL/execution/?id={number}" for number in range(count)]
    return "".join(fetched(f"{base}{page}") for page in pages)


def fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


def test_a_wrong_password_is_one_readable_error(spark: SparkSession, locked: str) -> None:
    reader = spark.read.format("postgres").options(url=locked, table="t", password="wr0ng-secret")
    with pytest.raises(PySparkException) as caught:
        reader.load()
    text = str(last_error(caught.value))
    assert "password authentication failed for user" in text and "wr0ng-secret" not in text
