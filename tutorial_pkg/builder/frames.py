"""The content of a frame in a built source's log: the rows of one `fill`, and a snapshot.

The payload is the length of a JSON text (four bytes), that text, and an Arrow stream. The JSON is
`{"snapshot": …}`, or `{}` for a source that has none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tutorial_pkg.core.json_text import read_json

MOST_BYTES = 1 << 30

_LENGTH = struct.Struct("<I")


def encode(batches: Sequence[pa.RecordBatch], head: str) -> memoryview:
    """Return a payload; `head` is the JSON text. Raise `ValueError` if it would be too large."""
    text = head.encode()
    sink = pa.BufferOutputStream()
    sink.write(_LENGTH.pack(len(text)) + text)
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    payload = sink.getvalue()
    if payload.size > MOST_BYTES:
        raise ValueError(
            f"one call added {payload.size} bytes, at most {MOST_BYTES} are allowed; add less, "
            "and return: it is called again at once"
        )
    return memoryview(payload)


def snapshot_text(snapshot: Any) -> str:
    """Return the JSON text. Raise `TypeError` or `ValueError` for what JSON cannot represent."""
    text = json.dumps({"snapshot": snapshot}, allow_nan=False)
    read_json(text)
    return text


def head_of(payload: memoryview) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(bytes(payload[_LENGTH.size : _end_of_head(payload)]))
    return head


def batches_of(payload: memoryview) -> list[pa.RecordBatch]:
    """Return the rows, which share the memory of `payload`."""
    stream = pa.ipc.open_stream(pa.py_buffer(payload[_end_of_head(payload) :]))
    return list(stream)


def _end_of_head(payload: memoryview) -> int:
    return int(_LENGTH.size + _LENGTH.unpack_from(payload)[0])
