"""Messages as record batches, and their places in the stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

SCHEMA = (
    "subject STRING, data BINARY, sequence LONG, timestamp TIMESTAMP_LTZ, "
    "headers MAP<STRING, STRING>"
)

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_HEADERS = pa.map_(pa.string(), pa.string())
_SHORT = 9  # words of a reply subject; newer servers prepend the account's domain and hash


class Place(NamedTuple):
    """A message's place in its stream; `pending` counts the messages after it."""

    sequence: int
    nanoseconds: int
    pending: int


def place_of(message: Any) -> Place:
    """Parse `$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.OWN_SEQUENCE.TIME.PENDING`."""
    words = message.reply.split(".")
    first = 5 if len(words) == _SHORT else 7
    return Place(int(words[first]), int(words[first + 2]), int(words[first + 3]))


def to_batch(messages: list[Any], places: list[Place]) -> pa.RecordBatch:
    """Return messages as one record batch of `SCHEMA`."""
    headers = [message.headers and list(message.headers.items()) for message in messages]
    return pa.RecordBatch.from_pydict(
        {
            "subject": pa.array([message.subject for message in messages], pa.string()),
            "data": pa.array([message.data for message in messages], pa.binary()),
            "sequence": pa.array([place.sequence for place in places], pa.int64()),
            "timestamp": pa.array([place.nanoseconds // 1000 for place in places], _TIMESTAMP),
            "headers": pa.array(headers, _HEADERS),
        }
    )
