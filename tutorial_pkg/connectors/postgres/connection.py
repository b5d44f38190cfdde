"""Connections: made with patience, closed, noticed when dead, and silent about secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.postgres.options import FORMAT
from tutorial_pkg.core.pauses import patiently

Result = TypeVar("Result")
Connection = psycopg.Connection[Any]

# A server that has vanished without a word is noticed within a minute; nothing hangs for ever.
LIVENESS = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# What we rely on, whatever server, database, role or environment say; an old server lacks some of
# them. With `synchronous_commit` off, a crash of the server would take what Spark
# has noted as written; its stricter kinds stay.
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",  # else the server says how 03/04/2025 is read
    "timezone_abbreviations": "Default",  # and whose time IST is
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "synchronize_seqscans": "off",  # else LIMIT gives each task other rows
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "client_min_messages": "warning",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
MOST_MILLIS = 2**31 - 1
# A refusal by the server, or of its certificate, is final, except for errors known to pass.
FINAL = re.compile(r"FATAL:|certificate|does not support SSL|invalid \w+ value")
LATER = re.compile(r"starting up|shutting down|recovery|too many|remaining connection slots")


def conninfo(options: OptionValues) -> str:
    """What libpq connects with; it holds the password. Raises `ValueError`."""
    if (options.url is None) == (options.service is None):
        raise ValueError(f"format `{FORMAT}`: give one of the options `url` and `service`")
    given = {"service": options.service, "user": options.user}
    url = options.url.reveal() if options.url else ""
    if options.password:
        given["password"] = options.password.reveal()
    present = {name: value for name, value in given.items() if value is not None}
    own = {**LIVENESS, "application_name": "tutorial_pkg", **_parsed(url), **present}
    return make_conninfo("", **{**own, "client_encoding": "UTF8"})


def settings(options: OptionValues) -> str:
    """A statement for each new connection: one row for each setting."""
    millis = min(max(1, options.waitSeconds * 1000), MOST_MILLIS)
    given = {**SETTINGS, "lock_timeout": str(millis)}
    pairs = sql.SQL(", ").join(
        sql.SQL("({}, {})").format(name, value) for name, value in given.items()
    )
    text = """SELECT set_config(name, value, false) FROM (VALUES {}) AS ours (name, value)
        WHERE current_setting(name, true) IS NOT NULL
        AND (name <> 'synchronous_commit' OR current_setting(name) = 'off')"""
    return sql.SQL(text).format(pairs).as_string()


def _parsed(url: str) -> dict[str, Any]:
    """Its parts; an error of libpq about it would quote the password."""
    authority = re.match(r"postgres(ql)?://([^/?]*)", url)
    try:
        if authority and authority[2].count("@") > 1:
            raise psycopg.ProgrammingError
        parts = conninfo_to_dict(url)
        if not re.fullmatch(r"[\d,]*", str(parts.get("port", ""))):  # of a password, perhaps
            raise psycopg.ProgrammingError
        return parts
    except psycopg.Error:
        raise ValueError(
            f"format `{FORMAT}`: option `url` is not the address of a PostgreSQL database (it is "
            "not shown here, as it may hold a password); it looks like "
            "`postgresql://user@host:5432/database`, and `%`, `@`, `/`, `:` or blanks in its "
            "parts are written as %25, %40 and so on: better give `password` by itself"
        ) from None


def connect(options: OptionValues, **more: Any) -> Connection:
    """A new connection, which commits each statement. Waits for a database that is away.

    Raises `ValueError` for what cannot be an address, `ConnectionError` for a refusal and when the
    time to wait is over.
    """
    address = make_conninfo(conninfo(options), **more)

    def opened() -> Connection:
        connection = psycopg.connect(address, autocommit=True)
        connection.execute(settings(options).encode())
        return connection

    try:
        return patiently(opened, _may_pass, options.waitSeconds)
    except psycopg.OperationalError as error:
        text = " ".join(str(error).split())
        if _may_pass(error):
            after = f"{options.waitSeconds} s (option `waitSeconds`)"
            raise ConnectionError(f"no database after {after}: {text}") from None
        raise ConnectionError(f"the database refuses: {text}") from None


def _may_pass(error: Exception) -> bool:
    final = FINAL.search(str(error)) and not LATER.search(str(error))
    return isinstance(error, psycopg.OperationalError) and not final


def persistent(options: OptionValues, work: Callable[[Connection], Result]) -> Result:
    """Do what may be repeated; once more on a new connection when the first one breaks.

    Raises `TimeoutError` when somebody holds a lock for too long.
    """

    def once() -> Result:
        with connect(options) as connection, locks_in_time(options):
            return work(connection)

    try:
        return once()
    except psycopg.OperationalError:
        return once()


@contextmanager
def locks_in_time(options: OptionValues) -> Iterator[None]:
    """The database's own error says neither whose lock it was, nor for how long."""
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise TimeoutError(
            f"somebody has held a lock on table `{options.table}` for more than "
            f"{options.waitSeconds} s (option `waitSeconds`); see the view `pg_locks`"
        ) from None
