"""The options of format `nats`. Nothing here needs its client."""

from __future__ import annotations

from pathlib import Path

from tutorial_pkg.builder import (
    FAIL_ON_DATA_LOSS,
    REQUIRED,
    Option,
    accepts,
    choice,
    integer,
    not_empty,
    secret,
)

FORMAT = "nats"
STREAM, QUEUE = "stream", "queue"
EARLIEST, LATEST = "earliest", "latest"


@accepts("an existing file")
def file(text: str) -> str:
    """A parser for files that the client reads."""
    if not Path(text).is_file():
        raise ValueError
    return text


@accepts("earliest, latest or a sequence number from 1")
def starting(text: str) -> str | int:
    return text.lower() if text.lower() in (EARLIEST, LATEST) else integer(1)(text)


# What all need to reach a server. `url` is a name that Spark hides in plans.
CONNECTION = (
    Option("url", secret, REQUIRED, "`nats://host:port`, several with commas between them"),
    Option("user", secret, None, "to log in"),
    Option("password", secret, None, "to log in"),
    Option("token", secret, None, "to log in, instead of user and password"),
    Option("credentials", file, None, "to log in: a file with a JWT and its key"),
    Option("caFile", file, None, "whom to trust, for `tls://host:port`"),
    Option("timeoutSeconds", integer(1), 60, "seconds to wait for a server that is away"),
)
READ = (
    *CONNECTION,
    Option("mode", choice(STREAM, QUEUE), STREAM, "how to read"),
    Option("stream", not_empty, REQUIRED, "the name of the JetStream stream"),
    Option(
        "subject",
        not_empty,
        None,
        "only messages of this one subject; `*` and `>` as in NATS; no rows if the stream has none",
    ),
)
READ_STREAM = (
    *READ,
    Option("startingSequence", starting, EARLIEST, "where a new query begins"),
    FAIL_ON_DATA_LOSS,
)
READ_QUEUE = (*READ, Option("consumer", not_empty, REQUIRED, "name of the durable consumer"))
WRITE = (
    *CONNECTION,
    Option(
        "subject", not_empty, None, "where all rows go; without it, the column `subject` says where"
    ),
)
