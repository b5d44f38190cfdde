"""Databases for tests: empty ones on a server that the tests share."""

from __future__ import annotations

import uuid

import psycopg
from psycopg.conninfo import make_conninfo

from tutorial_pkg.processes.services import Postgres


def new_database(server: Postgres) -> str:
    """Make one; where it is."""
    name = f"test_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_conninfo(server.uri, dbname=name)


def drop_database(server: Postgres, url: str) -> None:
    """With its slots, which would keep it."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(server.uri, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = %s AND NOT active",
            [name],
        )
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
