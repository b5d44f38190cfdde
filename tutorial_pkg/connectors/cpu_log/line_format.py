r"""Format and parse the lines of a CPU log, `epoch_millis,cpu_usage,item`, a batch at a time.

Newlines, carriage returns and backslashes in an item are written as `\n`, `\r` and `\\`, and a null
as `\N`. Commas and quotes need no escape: a line is split at its first two commas only.
"""

from __future__ import annotations

import pyarrow as pa

from tutorial_pkg.core import compute as pc
from tutorial_pkg.core.lines import LAST_MILLIS

NULL_ITEM = r"\N"
ESCAPES = (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"))  # the backslash first: the others add more
# Every line starts like this, with a time of at most `LAST_MILLIS`.
LINE_PATTERN = r"^[0-9]{1,15},[0-9]+\.[0-9]+,"

_TEXT = pa.large_string()  # 64-bit offsets: a batch of long items may pass 2 GiB once escaped


def format_lines(batch: pa.RecordBatch, epoch_millis: int, cpu_usage: float) -> bytes:
    """Return the rows as lines with newlines, all with the same time and usage.

    A single column is the item; several become `Row(name=value, ...)`, with `null` for nulls.
    Columns that are not text are cast to string by Arrow, timestamps in the session's time zone.
    """
    if not batch.num_rows:
        return b""
    items = _escaped(_items(batch)).fill_null(NULL_ITEM)
    # All lines have the same prefix, so joining the items with it as separator makes the lines.
    prefix = f"{epoch_millis},{cpu_usage:.6f},"
    together = pa.LargeListArray.from_arrays([0, len(items)], items)
    joined = pc.binary_join(together, pa.scalar(f"\n{prefix}", _TEXT))
    return b"".join((prefix.encode(), joined.buffers()[2], b"\n"))


def parse_lines(lines: pa.Array) -> pa.RecordBatch:
    """Return lines without their newlines as columns `timestamp`, `cpu_usage` and `item`."""
    may_be = pc.match_substring_regex(lines, LINE_PATTERN)
    parts = pc.split_pattern(pc.if_else(may_be, lines, None), ",", max_splits=2)
    text, usage, item = (pc.list_element(parts, i) for i in range(3))
    millis = text.cast(pa.int64())
    is_line = pc.less_equal(millis, LAST_MILLIS).fill_null(False)
    micros = pc.multiply(pc.if_else(is_line, millis, None), 1000)
    columns = {
        "timestamp": micros.cast(pa.timestamp("us", tz="UTC")),
        "cpu_usage": pc.if_else(is_line, usage.cast(pa.float64()), None),
        "item": pc.if_else(is_line, _unescaped(item), lines),
    }
    return pa.record_batch(columns)


def _items(batch: pa.RecordBatch) -> pa.Array:
    columns = [column.cast(_TEXT) for column in batch.columns]
    if len(columns) == 1:
        return columns[0]
    pieces: list[pa.Array | pa.Scalar] = []
    for name, column in zip(batch.schema.names, columns, strict=True):
        pieces += [pa.scalar(f", {name}=" if pieces else f"Row({name}=", _TEXT), column]
    pieces += [pa.scalar(")", _TEXT), pa.scalar("", _TEXT)]  # the last one is the separator
    return pc.binary_join_element_wise(*pieces, null_handling="replace", null_replacement="null")


def _escaped(text: pa.Array) -> pa.Array:
    for character, escape in ESCAPES:
        if _occurs(character, text):
            text = pc.replace_substring(text, character, escape)
    return text


def _unescaped(text: pa.Array) -> pa.Array:
    if not _occurs("\\", text):
        return text
    is_null = pc.equal(text, NULL_ITEM)
    # Split at escaped backslashes first: any other backslash then starts an escape.
    parts = pc.split_pattern(text, r"\\")
    values = parts.values
    for character, escape in ESCAPES[1:]:
        values = pc.replace_substring(values, escape, character)
    restored = pa.ListArray.from_arrays(parts.offsets, values, mask=parts.is_null())
    return pc.if_else(is_null, None, pc.binary_join(restored, "\\"))


def _occurs(character: str, text: pa.Array) -> bool:
    """Return whether `character` may occur: a fast scan that often saves slow replacements."""
    data = text.buffers()[2]
    return data is not None and character.encode() in data.to_pybytes()
