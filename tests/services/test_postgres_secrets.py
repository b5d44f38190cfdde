"""Format `postgres` in real queries: secrets appear nowhere."""

from __future__ import annotations

import json
import os
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.services.databases import new_database
from tutorial_pkg import PostgresDataSource, last_error
from workbook.services import Postgres

PASSWORD = """a'b "c@d%/:e f\\"""
SECONDS = 100


@pytest.fixture
def locked(postgres: Postgres, service_folder: Path) -> Iterator[str]:
    """Return the address of a database that a role reaches only with its password."""
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


def test_password_works_and_appears_nowhere(
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
    """Return Spark's web pages, and the answers of its REST interface, about all queries."""
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


def test_wrong_password_is_one_readable_error(spark: SparkSession, locked: str) -> None:
    reader = spark.read.format("postgres").options(url=locked, table="t", password="wr0ng-secret")
    with pytest.raises(PySparkException) as caught:
        reader.load()
    text = str(last_error(caught.value))
    assert "password authentication failed for user" in text and "wr0ng-secret" not in text
