"""The payload of a frame in the log: whole lines, and perhaps a *note* about them.

A payload's last byte tells whether there is one. `docs/formats/network_lines.md` has the format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from tutorial_pkg.core.lines import to_lines, with_event_time
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.reader import Framed

_END = struct.Struct("<IB")  # the note's length, and a byte that ends no line
_NUL = 0


def with_note(lines: bytes, **note: Any) -> bytes:
    """Return a payload; empty parts of the note are left out."""
    parts = {name: value for name, value in note.items() if value}
    if not parts:
        return lines
    text = json.dumps(parts, separators=(",", ":")).encode()
    return b"".join((lines, text, _END.pack(len(text), _NUL)))


def split(payload: memoryview) -> tuple[memoryview, Mapping[str, Any]]:
    """Return a payload's lines and its note."""
    if not payload or payload[-1] != _NUL:
        return payload, {}
    end = len(payload) - _END.size
    start = end - _END.unpack_from(payload, end)[0]
    note: dict[str, Any] = json.loads(bytes(payload[start:end]))
    return payload[:start], note


def to_batch(frames: list[Framed], port: int, options: OptionValues) -> pa.RecordBatch:
    """Return the rows of neighboring frames of a port, in a task."""
    parts = [split(payload) for _, payload in frames]
    columns = {"value": _values(parts)}
    if options.includeMetadata:
        rows = [frame.rows for frame, _ in frames]
        frame_of_row = pa.concat_arrays([pa.repeat(at, count) for at, count in enumerate(rows)])
        times = pa.array([frame.received_at for frame, _ in frames], pa.timestamp("us", tz="UTC"))
        clients = pa.array([note.get("client") for _, note in parts], pa.string())
        columns |= {
            "port": pa.repeat(pa.scalar(port, pa.int32()), sum(rows)),
            "received_at": times.take(frame_of_row),
            "client": clients.take(frame_of_row),
        }
    batch = pa.RecordBatch.from_pydict(columns)
    return with_event_time(batch, options.mode) if options.eventTime else batch


def _values(parts: list[tuple[memoryview, Mapping[str, Any]]]) -> pa.Array:
    if any("lengths" in note for _, note in parts):
        return pa.concat_arrays([_values_of(*part) for part in parts])
    return to_lines(parts[0][0] if len(parts) == 1 else b"".join(lines for lines, _ in parts))


def _values_of(lines: memoryview, note: Mapping[str, Any]) -> pa.Array:
    """Return one frame's rows; if they may contain newlines, `lengths` says where each ends."""
    if "lengths" not in note:
        return to_lines(lines)
    ends = [*accumulate(length + 1 for length in note["lengths"])]
    texts = (bytes(lines[start : end - 1]) for start, end in pairwise([0, *ends]))
    return pa.array([text.decode(errors="replace") for text in texts], pa.string())
