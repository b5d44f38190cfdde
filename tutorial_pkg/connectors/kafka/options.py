"""The options of the format `kafka_py`. Nothing here needs the client library."""

from __future__ import annotations

import re

from tutorial_pkg.builder import (
    FAIL_ON_DATA_LOSS,
    Option,
    OptionValues,
    accepts,
    boolean,
    integer,
    names,
    not_empty,
    secret,
)
from tutorial_pkg.core.json_text import read_json

FORMAT = "kafka_py"
MOST, CUT = "maxOffsetsPerTrigger", "minPartitions"  # the names in Spark's own source
TIMEOUT = "kafkaConsumer.pollTimeoutMs"
EARLIEST, LATEST = -2, -1  # in the place of an offset, as in Kafka's own requests
FIXED = ("enable.auto.commit", "enable.partition.eof", "auto.offset.reset")
WORDS = {"earliest": EARLIEST, "latest": LATEST}

Places = int | dict[str, dict[int, int]]  # for all partitions, or by topic and partition


@accepts("a regular expression of Python")
def pattern(text: str) -> str:
    """Parse a regular expression that must match a topic's whole name."""
    try:
        re.compile(not_empty(text))
    except re.error:
        raise ValueError from None
    return text


@accepts('earliest, latest, or JSON such as `{"orders": {"0": 23}}` (-2 earliest, -1 latest)')
def starting(text: str) -> Places:
    return WORDS[text.lower()] if text.lower() in WORDS else _places(text, EARLIEST)


@accepts('latest, or JSON such as `{"orders": {"0": 23}}` (-1 latest)')
def ending(text: str) -> Places:
    return LATEST if text.lower() == "latest" else _places(text, LATEST)


def _places(text: str, lowest: int) -> Places:
    topics = read_json(text)
    if not isinstance(topics, dict) or not all(isinstance(part, dict) for part in topics.values()):
        raise ValueError
    offsets = [offset for part in topics.values() for offset in part.values()]
    if not all(type(offset) is int and offset >= lowest for offset in offsets):
        raise ValueError
    return {
        topic: {int(number): offset for number, offset in part.items()}
        for topic, part in topics.items()
    }


CLIENT = Option("kafka.*", secret, None, "for librdkafka; `kafka.bootstrap.servers` is required")
READ = (
    CLIENT,
    Option("subscribe", names, None, "topics to read"),
    Option("subscribePattern", pattern, None, "topics to read, except Kafka's own"),
    Option("startingOffsets", starting, None, "start of a new query: `latest`; batch: `earliest`"),
    Option("endingOffsets", ending, None, "in `spark.read` only: where it ends; `latest`"),
    Option("includeHeaders", boolean, False, "add the column `headers`"),
    FAIL_ON_DATA_LOSS,
    Option(TIMEOUT, integer(1, unit="milliseconds"), 120_000, "how long to wait for brokers"),
)
WRITE = (
    CLIENT,
    Option("topic", not_empty, None, "where all rows go; default: the column `topic`"),
)


def check_hidden(options: OptionValues) -> None:
    """Raise `ValueError` for a secret that Spark would show in its plans and its UI.

    Spark hides a value only if its option is named like a password, secret or token.
    """
    for name in ("ssl.key.pem", "sasl.jaas.config"):
        if name in options["kafka.*"] and not options["kafka.*"][name].is_reference:
            raise ValueError(
                f"format `{FORMAT}`: Spark would show option `kafka.{name}` in its plans; name an "
                "environment variable instead: `${env:NAME}`"
            )


def schema(options: OptionValues) -> str:
    """Return the schema of Spark's own source. Raises `ValueError` for contradicting options."""
    check_hidden(options)
    if fixed := [name for name in FIXED if name in options["kafka.*"]]:
        raise ValueError(
            f"format `{FORMAT}`: option `kafka.{fixed[0]}` must be left out: the query keeps the "
            "offsets, and `startingOffsets` says where it begins"
        )
    if (options.subscribe is None) == (options.subscribePattern is None):
        raise ValueError(
            f"format `{FORMAT}`: expected one of the options `subscribe` and `subscribePattern`"
        )
    return COLUMNS + HEADERS if options.includeHeaders else COLUMNS


COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP_LTZ, "
    "timestampType INT"
)
HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
