"""From frames of the log to rows, in a task."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from tutorial_pkg.connectors.network_lines.payload import split
from tutorial_pkg.core.lines import to_lines, with_event_time
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.reader import Framed


def to_batch(frames: list[Framed], port: int, options: OptionValues) -> pa.RecordBatch:
    """Return the rows of neighboring frames of a port."""
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
