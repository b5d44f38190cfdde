"""Real servers for a lesson: there, empty, quiet, on loopback only, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import confluent_kafka.admin
import psutil
import psycopg
import pytest

from tutorial_pkg.processes import services
from tutorial_pkg.processes.query_process import wait_until
from tutorial_pkg.processes.services import (
    Postgres,
    Service,
    start_kafka,
    start_nats,
    start_postgres,
)

STARTERS = [start_postgres, start_nats, start_kafka]
Start = Callable[[Path], Service]


def lives(number: int) -> bool:
    """A zombie is dead: nobody has asked for its end yet, that is all."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tables(uri: str) -> list[tuple[str, ...]]:
    with psycopg.connect(uri) as database:
        text = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return database.execute(text).fetchall()


@pytest.mark.parametrize("start", STARTERS)
def test_a_server_is_reached_from_this_machine_only_and_gone_when_closed(
    database_folder: Path, start: Start
) -> None:
    with start(database_folder) as server:
        number = server.pid
        places = psutil.Process(number).net_connections("inet")
        assert {place.laddr.ip for place in places} <= {"127.0.0.1"}
    assert not lives(number)
    server.close()  # once more does no harm


@pytest.mark.parametrize("start", STARTERS)
def test_a_killed_server_starts_again_where_it_was(database_folder: Path, start: Start) -> None:
    with start(database_folder) as server:
        uri, number = server.uri, server.pid
        server.kill()
        assert not lives(number)
        server.restart()
        assert server.uri == uri and lives(server.pid)


@pytest.mark.parametrize("start", STARTERS)
def test_a_server_goes_with_the_process_that_started_it(
    database_folder: Path, start: Start
) -> None:
    name = start.__name__
    code = (
        f"import sys, time; from pathlib import Path; from tutorial_pkg.processes import services; "
        f"print(services.{name}(Path({str(database_folder)!r})).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as starter:
        assert starter.stdout
        number = int(starter.stdout.readline())
        assert lives(number)
        starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not lives(number), 60, "the end of the server")


def test_a_lesson_that_begins_again_finds_an_empty_database(
    database_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "_open", [])  # the other tests' server is not closed
    first = Postgres(database_folder)
    with psycopg.connect(first.uri) as database:
        database.execute("CREATE TABLE left_over (number INT)")
    Service.close_all()
    shutil.rmtree(database_folder)
    with Postgres(database_folder) as second:
        assert tables(second.uri) == []


def test_what_was_committed_survives_a_kill_and_changes_can_be_streamed(
    database_folder: Path,
) -> None:
    with start_postgres(database_folder, max_connections="17") as server:
        with psycopg.connect(server.uri) as database:
            database.execute("CREATE TABLE kept (number INT)")
        server.kill()
        server.restart()
        assert tables(server.uri) == [("kept",)]
        with psycopg.connect(server.uri) as database:
            assert database.execute("SHOW wal_level").fetchone() == ("logical",)
            assert database.execute("SHOW max_connections").fetchone() == ("17",)


def test_kafka_answers_its_client(database_folder: Path) -> None:
    with start_kafka(database_folder) as server:
        client = confluent_kafka.admin.AdminClient({"bootstrap.servers": server.uri})
        assert client.list_topics(timeout=10).topics == {}


def test_it_prints_nothing_where_no_runtime_folder_is_known(database_folder: Path) -> None:
    code = (
        "from pathlib import Path; from tutorial_pkg.processes.services import Postgres; "
        f"Postgres(Path({str(database_folder)!r})).close()"
    )
    without = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run([sys.executable, "-c", code], env=without, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_make_services_names_a_version_or_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    services.print_services()
    assert [line.split(":")[0] for line in capfd.readouterr().out.splitlines()] == [
        "PostgreSQL",
        "NATS",
        "Kafka's protocol",
        "S3",
        "rsyslog",
    ]
    monkeypatch.setattr(services, "PROGRAMS", {services.NATS: ("nats-bin", "/nats-server")})
    monkeypatch.setattr(services.shutil, "which", lambda *_, **__: None)
    services.print_services()
    assert capfd.readouterr().out == (
        "NATS: there is no server for NATS here: pip install nats-bin\n"
        "rsyslog: there is no rsyslog with RELP here: apt-get install rsyslog rsyslog-relp "
        "rsyslog-gnutls (or `make rsyslog`)\n"
    )
