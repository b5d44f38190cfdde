"""Databases for tests: empty ones on a server that the tests share."""

from __future__ import annotations

import uuid

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from workbook.services import Postgres

# What an administrator may have set, and none of our connections may depend on.
UNUSUAL = {
    "client_encoding": "LATIN1",
    "TimeZone": "Asia/Tokyo",
    "DateStyle": "German",
    "timezone_abbreviations": "India",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "extra_float_digits": "-5",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "synchronize_seqscans": "on",
    "default_transaction_isolation": "serializable",
    "synchronous_commit": "off",
    "client_min_messages": "error",
    "statement_timeout": "7min",
    "transaction_timeout": "8min",
    "idle_in_transaction_session_timeout": "9min",
}


def new_database(server: Postgres, form: str = "") -> str:
    """Create a database, and return its address."""
    name = f"test_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {form}".encode())
    return make_conninfo(server.uri, dbname=name)


def drop_database(server: Postgres, url: str) -> None:
    """Drop it with its slots, which would block that."""
    name = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(server.uri, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = %s AND NOT active",
            [name],
        )
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
