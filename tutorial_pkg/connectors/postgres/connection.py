"""Connections: made with patience, closed, noticed when they are dead, silent about secrets."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tutorial_pkg.connectors.postgres.options import FORMAT
from tutorial_pkg.core.options import OptionValues

Result = TypeVar("Result")
Connection = psycopg.Connection[Any]

PAUSE_SECONDS = 0.25
# A server that has vanished without a word is noticed within a minute; nothing hangs for ever.
LIVENESS = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# Values as texts must not depend on how the server or the role is set up.
SETTINGS = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex"
# What the server says when it will be there later; its other refusals are final.
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
    own["options"] = f"{SETTINGS} {own.get('options', '')}".strip()
    return make_conninfo("", **own)


def _parsed(url: str) -> dict[str, Any]:
    """Its parts; an error that libpq has with it would quote the password."""
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
            f"format `{FORMAT}`: option `url` is no address of a PostgreSQL database (it is not "
            "shown here, as it may hold a password); it looks like "
            "`postgresql://user@host:5432/database`, and `%`, `@`, `/`, `:` or blanks in its "
            "parts are written as %25, %40 and so on: better give `password` by itself"
        ) from None


@contextlib.contextmanager
def connected(options: OptionValues) -> Iterator[Connection]:
    """A connection that commits each statement by itself, closed afterwards."""
    connection = connect(options)
    with contextlib.closing(connection):
        yield connection


def connect(options: OptionValues, **more: Any) -> Connection:
    """A new connection. Waits for a database that is not there now.

    Raises `ValueError` for what cannot be an address, `ConnectionError` for a refusal and when
    waiting has come to its end.
    """
    address = make_conninfo(conninfo(options), **more)
    end = time.monotonic() + options.waitSeconds
    while True:
        try:
            return psycopg.connect(address, autocommit=True)
        except psycopg.OperationalError as error:
            text = " ".join(str(error).split())
            if "FATAL:" in text and not LATER.search(text):
                raise ConnectionError(f"the database refuses: {text}") from None
            if time.monotonic() > end:
                raise ConnectionError(
                    f"no database after {options.waitSeconds} s (option `waitSeconds`): {text}"
                ) from None
        time.sleep(PAUSE_SECONDS)


def wait_for_database(options: OptionValues) -> None:
    """For clients that cannot wait by themselves."""
    connect(options).close()


def persistent(options: OptionValues, work: Callable[[Connection], Result]) -> Result:
    """Do what may be repeated; once more on a new connection when the first one breaks."""
    try:
        with connected(options) as connection:
            return work(connection)
    except psycopg.OperationalError:
        with connected(options) as connection:
            return work(connection)
