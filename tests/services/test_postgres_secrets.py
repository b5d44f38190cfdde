"""Format `postgres` in real queries: secrets appear nowhere."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.services.databases import new_database
from tests.services.secrets import SECRET, sightings
from tutorial_pkg import PostgresDataSource, last_error
from workbook.services import Postgres


@pytest.fixture
def locked(postgres: Postgres, service_folder: Path) -> Iterator[str]:
    """Return the address of a database that a role reaches only with its password."""
    url = new_database(postgres)
    rules = service_folder / "postgres" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(url, autocommit=True) as database:
        quoted = SECRET.replace("'", "''")
        database.execute(f"CREATE ROLE locked LOGIN PASSWORD '{quoted}'".encode())
        database.execute("GRANT ALL ON SCHEMA public TO locked")
        database.execute("CREATE TABLE t AS SELECT 7 AS id; GRANT SELECT ON t TO locked")
        rules.write_text(f"local all locked scram-sha-256\n{before}")
        database.execute("SELECT pg_reload_conf()")
        yield make_conninfo(url, user="locked")
        rules.write_text(before)
        database.execute("SELECT pg_reload_conf()")
        database.execute("DROP OWNED BY locked; DROP ROLE locked")


def test_password_is_nowhere_visible(spark: SparkSession, locked: str, tmp_path: Path) -> None:
    spark.dataSource.register(PostgresDataSource)
    options = {"url": locked, "password": SECRET, "table": "t"}
    assert sightings(spark, "postgres", {**options, "key": "id"}, tmp_path) == []
    for wrong in ({"table": "nothing"}, {"noSuchOption": "1"}, {"password": f"not {SECRET}"}):
        with pytest.raises(PySparkException) as caught:
            spark.read.format("postgres").options(**{**options, **wrong}).load()
        assert SECRET not in f"{caught.value} {last_error(caught.value)}"


def test_ways_to_give_a_password(
    locked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts = conninfo_to_dict(locked)
    coded = urllib.parse.quote(SECRET, safe="")
    service = tmp_path / "services.conf"
    service.write_text(f"[mine]\nhost={parts['host']}\nuser=locked\ndbname={parts['dbname']}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("MY_PASSWORD", SECRET)
    for options in (
        {"url": f"postgresql://locked:{coded}@/{parts['dbname']}?host={parts['host']}"},
        {"service": "mine", "password": "${env:MY_PASSWORD}"},
    ):
        assert PostgresDataSource({"table": "t", **options}).schema().names == ["id"]
        with pytest.raises(ValueError) as caught:
            PostgresDataSource({"table": "nothing", **options}).schema()
        assert SECRET not in str(caught.value) and coded not in str(caught.value)
