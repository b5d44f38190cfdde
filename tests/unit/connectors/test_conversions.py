"""Values on their way to servers and files, and back: the same, or an error with the column."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from nats.aio.client import Client
from pyspark.sql.types import (
    StructType,
)

from tests.properties import EXAMPLES, FLAT, TEXTS, holds, same, structs, typed
from tests.unit.objects.folders import options_of, rows
from tutorial_pkg.builder import FunctionError, RowPacker
from tutorial_pkg.connectors.arrow_columns import check_flat
from tutorial_pkg.connectors.kafka.records import Records
from tutorial_pkg.connectors.kafka.sink import Sender
from tutorial_pkg.connectors.nats.sink import Publisher
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.objects.writing import ObjectDraft

# ---- Kafka ---------------------------------------------------------------------------------------

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SOME_BYTES = st.none() | st.binary(max_size=9)
HEADER = st.fixed_dictionaries({"key": st.none() | TEXTS, "value": SOME_BYTES})
RECORD = st.tuples(SOME_BYTES, SOME_BYTES, st.none() | st.lists(st.none() | HEADER, max_size=3))


@EXAMPLES
def test_a_record_of_kafka(examples: int) -> None:
    """No header at all is null: the client tells nothing else."""
    sender, records = object.__new__(Sender), object.__new__(Records)
    sender._topic = "t"
    options = SimpleNamespace(includeHeaders=True)
    records._context: Any = SimpleNamespace(options=options)
    records._topic, records._number = "t", 3

    def check(key: Any, value: Any, headers: Any) -> None:
        columns = {"key": pa.array([key], pa.binary()), "value": pa.array([value], pa.binary())}
        columns["headers"] = pa.array([headers], HEADERS)
        try:
            [(topic, sent_value, sent_key, _, pairs)] = sender._rows(
                pa.RecordBatch.from_pydict(columns)
            )
        except ValueError as error:
            assert "column `headers` cannot hold " in str(error)
            return
        record = {"key": sent_key, "value": sent_value, "headers": pairs or None}
        record |= {"timestamp": (1, 5), "offset": 7}
        found = SimpleNamespace(**{name: lambda each=each: each for name, each in record.items()})
        [row] = records._to_batch([found]).to_pylist()
        assert (row["key"], row["value"], row["headers"]) == (key, value, headers or None)
        assert (topic, row["offset"]) == ("t", 7)

    holds(check, examples, *[SOME_BYTES] * 2, st.none() | st.lists(st.none() | HEADER, max_size=3))


# ---- NATS ----------------------------------------------------------------------------------------

NAMES = st.text(max_size=5) | st.sampled_from(["Name", "a b", "x:y", "X-Ä", "", "\0", "Nats"])
VALUES = st.none() | TEXTS | st.sampled_from([" a", "a\t", "a\x85", "a b", "a: b", "\x0b", "ä"])


@EXAMPLES
def test_headers_of_nats(examples: int) -> None:
    """As the real client writes and parses them; a null is an empty text, as the help says."""
    publisher = object.__new__(Publisher)
    publisher._subject = "s"
    publisher._message = lambda subject, data, headers: (data, headers)  # type: ignore[method-assign]

    def check(data: bytes | None, headers: dict[str, str | None] | None) -> None:
        kind = pa.map_(pa.string(), pa.string())
        pairs = None if headers is None else list(headers.items())
        columns = {"data": pa.array([data], pa.binary()), "headers": pa.array([pairs], kind)}
        try:
            [(payload, sent)] = publisher._messages(pa.RecordBatch.from_pydict(columns))
        except ValueError as error:
            assert "column `headers` cannot hold " in str(error)
            return
        assert payload == (data or b"")
        assert asyncio.run(through_the_client(sent)) == {
            name: value or "" for name, value in (headers or {}).items()
        }

    holds(check, examples, SOME_BYTES, st.none() | st.dictionaries(NAMES, VALUES, max_size=3))


async def through_the_client(headers: dict[str, str]) -> dict[str, str]:
    client, sent = Client(), list[bytes]()
    client._status, client._max_payload = Client.CONNECTED, 1 << 20

    async def send(command: bytes) -> None:
        sent.append(command)

    client._send_command = send  # type: ignore[method-assign]
    await client.publish("s", b"", headers=headers)
    _, _, block = sent[0].partition(b"\r\n")
    return await client._process_headers(block[: block.index(b"\r\n\r\n") + 4]) or {}


# ---- Files ---------------------------------------------------------------------------------------


@EXAMPLES
@pytest.mark.parametrize("form", ["jsonl", "csv", "avro", "parquet"])
def test_rows_of_files(tmp_path: Path, form: str, examples: int) -> None:
    def check(found: tuple[StructType, list[dict[str, Any] | None]]) -> None:
        schema, given = found[0], [row for row in found[1] if row is not None]
        assume(given)
        batch = RowPacker(schema).pack(given)
        options = options_of(tmp_path, WRITE, format=form)
        try:
            check_flat(form, schema)
            draft = ObjectDraft(options, batch.schema)
            draft.add(batch)
            (tmp_path / f"a.{form}").write_bytes(draft.finish().read())
            got = rows(tmp_path, schema, format=form)
        except (ValueError, FunctionError) as error:
            assert any(f"`{name}`" in str(error) for name in schema.names), error
        else:
            assert same(got, given)

    holds(check, examples, typed(structs(st.sampled_from(list(FLAT)))))
