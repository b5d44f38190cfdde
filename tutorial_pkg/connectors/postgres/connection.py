"""Connections: opened with patience, noticed when dead, and silent about secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import adbc_driver_manager as adbc  # without its `dbapi`, which is slow to import
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.postgres.options import FORMAT, Table
from tutorial_pkg.core.waiting import Tries

Connection = psycopg.Connection[Any]

# A server that has vanished is noticed within a minute, so nothing hangs.
LIVENESS = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# Every connection has these settings, regardless of the server, database, role and environment.
# Old servers lack some of them.
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",  # how 03/04/2025 is read
    "timezone_abbreviations": "Default",  # which zone IST is
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "synchronize_seqscans": "off",  # otherwise LIMIT returns different rows to each task
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",  # stricter values stay
    "client_min_messages": "warning",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
# The server's refusals, and untrusted certificates, are final, except for errors that pass.
FINAL = re.compile(r"FATAL:|certificate|does not support SSL|invalid \w+ value")
PASSING_CLASSES = ("08", "40", "53", "57", "58")  # of SQLSTATE: connections, resources, shutdowns
PASSING = re.compile(r"starting up|shutting down|recovery|too many|remaining connection slots")


def conninfo(options: OptionValues) -> str:
    """Return libpq's connection string, which contains the password. Raises `ValueError`."""
    if (options.url is None) == (options.service is None):
        raise ValueError(f"format `{FORMAT}`: set one of the options `url` and `service`")
    password = options.password.reveal() if options.password else None
    own = {"service": options.service, "user": options.user, "password": password}
    own = {name: value for name, value in own.items() if value is not None}
    parts = _parsed(options.url.reveal() if options.url else "")
    values = {**LIVENESS, "application_name": "tutorial_pkg", **parts, **own}
    return make_conninfo("", **{**values, "client_encoding": "UTF8"})


def _parsed(url: str) -> dict[str, Any]:
    """Parse the address. libpq's own error would quote the password."""
    authority = re.match(r"postgres(ql)?://([^/?]*)", url)
    # With several `@`, or letters in the port, libpq would take parts of the password for the host.
    if not (authority and authority[2].count("@") > 1):
        with suppress(psycopg.Error):
            parts = conninfo_to_dict(url)
            if re.fullmatch(r"[\d,]*", str(parts.get("port", ""))):
                return parts
    raise ValueError(
        f"format `{FORMAT}`: option `url` is not an address of a PostgreSQL database (not shown, "
        "since it may contain a password). Expected `postgresql://user@host:5432/database`, with "
        "`%`, `@`, `/`, `:` and blanks in its parts written as %25, %40 and so on; or set the "
        "option `password`"
    )


def settings(options: OptionValues) -> str:
    """Return the first statement of every connection."""
    lock_timeout = str(max(1, options.waitSeconds * 1000))
    values = {**SETTINGS, "lock_timeout": lock_timeout}
    pairs = sql.SQL(", ").join(sql.SQL("({}, {})").format(*pair) for pair in values.items())
    text = """SELECT set_config(name, value, false) FROM (VALUES {}) AS ours (name, value)
        WHERE current_setting(name, true) IS NOT NULL
        AND (name <> 'synchronous_commit' OR current_setting(name) = 'off')"""
    return sql.SQL(text).format(pairs).as_string()


def connect(options: OptionValues, **parameters: Any) -> Connection:
    """Open a connection in autocommit mode; wait for a database that is unavailable.

    Raises `ValueError` if `url` isn't an address, and `ConnectionError` if the server refuses, or
    is away for longer than `waitSeconds`.
    """
    address = make_conninfo(conninfo(options), **parameters)

    def open_once() -> Connection:
        connection = psycopg.connect(address, autocommit=True)
        connection.execute(settings(options).encode())
        return connection

    try:
        return Tries(_may_pass, options.waitSeconds).patiently(open_once)
    except psycopg.OperationalError as error:
        waited = f"no database after {options.waitSeconds} s (option `waitSeconds`)"
        problem = waited if _may_pass(error) else "the database refuses"
        raise ConnectionError(f"{problem}: {' '.join(str(error).split())}") from None


def _may_pass(error: BaseException) -> bool:
    is_final = FINAL.search(str(error)) and not PASSING.search(str(error))
    return isinstance(error, psycopg.OperationalError) and not is_final


def is_transient(error: BaseException) -> bool:
    """Return whether the builder should try again, on a new connection.

    That is after a broken connection, and while another session uses the slot. `connect` has waited
    already before it raises `ConnectionError`.
    """
    if isinstance(error, adbc.OperationalError):  # also if a query fails in one of its functions
        return (error.sqlstate or "08")[:2] in PASSING_CLASSES
    is_final = isinstance(
        error, psycopg.errors.LockNotAvailable | psycopg.errors.ObjectNotInPrerequisiteState
    )
    return isinstance(error, psycopg.OperationalError) and not is_final


@contextmanager
def locks_in_time(options: OptionValues) -> Iterator[None]:
    """Turn a lock timeout into a `TimeoutError` that names the table and the option."""
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise TimeoutError(
            f"table `{options.table}` was locked for more than {options.waitSeconds} s (option "
            "`waitSeconds`); the view `pg_locks` shows by which session"
        ) from None


def resolve(connection: Connection, table: Table) -> tuple[int, str]:
    """Return the oid of the table that has this name now, and its name with the schema.

    A re-created table has a new oid. Raises the client's `UndefinedTable`.
    """
    look = """SELECT pg_class.oid::bigint, quote_ident(nspname) || '.' || quote_ident(relname)
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = %s::regclass"""
    oid, name = next(connection.execute(look, [table.quoted]))
    return oid, name
