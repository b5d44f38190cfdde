"""The options of format `kafka_py`, those of Spark's Kafka source. Nothing here needs a client."""

from __future__ import annotations

import re
from typing import Any

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
MOST, CUT = "maxOffsetsPerTrigger", "minPartitions"  # as Spark's own source calls them
EARLIEST, LATEST = -2, -1  # in the place of an offset, as in Kafka's own requests
WORDS = {"earliest": EARLIEST, "latest": LATEST}

Numbers = dict[str, list[int]]  # by topic, its partitions
Places = int | dict[str, dict[int, int]]  # for all partitions, or by topic and partition


@accepts("a regular expression of Python, without a set inside a set")
def pattern(text: str) -> str:
    """A parser for a regular expression that all of a topic's name must match.

    Python would read Java's `[a-d[m-p]]` and `[a-z&&[^b]]` as something else, without an error.
    """
    if re.search(r"\[[^\]]*(\[|&&)", re.sub(r"\\.", "", text)):
        raise ValueError
    try:
        re.compile(not_empty(text))
    except re.error:
        raise ValueError from None
    return text


@accepts('JSON such as `{"orders": [0, 1]}`')
def assignment(text: str) -> Numbers:
    """A parser for partitions by topic."""
    read = read_json(text)
    if not isinstance(read, dict) or not all(map(_are_numbers, read.values())) or not read:
        raise ValueError
    return read


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


@accepts('earliest, latest, or JSON such as `{"orders": {"0": 23}}` (-2 earliest, -1 latest)')
def starting(text: str) -> Places:
    """A parser for `startingOffsets`."""
    return WORDS[text.lower()] if text.lower() in WORDS else _places(text, EARLIEST)


@accepts('latest, or JSON such as `{"orders": {"0": 23}}` (-1 latest)')
def ending(text: str) -> Places:
    """A parser for `endingOffsets`."""
    return LATEST if text.lower() == "latest" else _places(text, LATEST)


def _places(text: str, least: int) -> Places:
    read = read_json(text)
    if not isinstance(read, dict) or not all(isinstance(each, dict) for each in read.values()):
        raise ValueError
    if not all(type(at) is int and at >= least for each in read.values() for at in each.values()):
        raise ValueError
    places = {
        topic: {int(number): at for number, at in each.items()} for topic, each in read.items()
    }
    if any(len(places[topic]) < len(each) for topic, each in read.items()):  # "0" and "00"
        raise ValueError
    return places


CLIENT = Option(
    "kafka.*", secret, None, "for the client, librdkafka: `kafka.bootstrap.servers` is required"
)
READ = (
    CLIENT,
    Option("subscribe", names, None, "topics to read"),
    Option("subscribePattern", pattern, None, "read all topics with such names, but Kafka's own"),
    Option("assign", assignment, None, "partitions to read"),
    Option(
        "startingOffsets",
        starting,
        None,
        "where a new query begins: by default `latest`, and `earliest` in `spark.read`; "
        "partitions that do not exist are ignored",
    ),
    Option("endingOffsets", ending, None, "in `spark.read` only: where it ends; `latest`"),
    Option("includeHeaders", boolean, False, "add the column `headers`"),
    FAIL_ON_DATA_LOSS,
    Option(
        "kafkaConsumer.pollTimeoutMs",
        integer(1, unit="milliseconds"),
        120_000,
        "how long to wait for brokers that do not answer",
    ),
)
WRITE = (
    CLIENT,
    Option(
        "topic", not_empty, None, "where all rows go; without it, the column `topic` says where"
    ),
)


def check_hidden(options: OptionValues) -> None:
    """Raise `ValueError` for a secret that Spark would show, in an option as it was written.

    Spark's plans and its UI hide a value only by its option's name: password, secret, token.
    """
    for name in ("ssl.key.pem", "sasl.jaas.config"):
        if name in options["kafka.*"] and not options["kafka.*"][name].is_reference:
            raise ValueError(
                f"format `{FORMAT}`: Spark would show option `kafka.{name}` in its plans; name an "
                "environment variable instead: `${env:NAME}`"
            )


def schema(options: OptionValues) -> str:
    """That of Spark's own source. Raises `ValueError` unless one option says what to read."""
    check_hidden(options)
    wanted = ("assign", "subscribe", "subscribePattern")
    given = [name for name in wanted if options[name] is not None]
    if len(given) != 1:
        raise ValueError(
            f"format `{FORMAT}`: give one of the options `assign`, `subscribe` and "
            f"`subscribePattern`, got {' and '.join(given) or 'none'}"
        )
    return COLUMNS + HEADERS if options.includeHeaders else COLUMNS


COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP_LTZ, "
    "timestampType INT"
)
HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
