"""`nats` without a server: options, places of messages, ids."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tutorial_pkg import NatsDataSource
from tutorial_pkg.builder import Secret, SinkContext, SourceContext
from tutorial_pkg.connectors.nats.messages import Place, place_of
from tutorial_pkg.connectors.nats.publishing import (
    Message,
    Publishing,
    error_in,
    is_acknowledgement,
)
from tutorial_pkg.connectors.nats.queue import Queue
from tutorial_pkg.connectors.nats.sink import CHUNK_MESSAGES, ID, Publisher, _chunks

NEEDED = {"url": "nats://127.0.0.1:1", "stream": "S"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stream": "S"}, "option `url` is missing; give a text; `${env:NAME}` in it is an envi"),
        ({"url": "x"}, "option `stream` is missing"),
        ({**NEEDED, "mode": "topic"}, "option `mode` must be stream or queue, got 'topic'"),
        ({**NEEDED, "mode": "queue", "path": "/x"}, "option `consumer` is missing"),
        ({**NEEDED, "mode": "queue", "consumer": "c"}, "option `path` is missing"),
        ({**NEEDED, "path": "/x"}, "unknown option `path`"),
        ({**NEEDED, "startingSequence": "0"}, "must be earliest, latest or a sequence number fr"),
        ({**NEEDED, "caFile": "/no/such"}, "option `caFile` must be an existing file, got '/no/"),
    ],
)
def test_wrong_option_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        NatsDataSource(options).schema()


@pytest.mark.parametrize("front", ["$JS.ACK", "$JS.ACK.hub.ACCOUNT"])
def test_reply_subject_has_the_place(front: str) -> None:
    reply = f"{front}.S.consumer.1.42.7.1795312435225006363.3"
    if front != "$JS.ACK":
        reply += ".random"
    assert place_of(SimpleNamespace(reply=reply)) == Place(42, 1795312435225006363, 3)


def ids(rows: list[str], batch: int = 7, index: int = 0) -> list[str]:
    options: Any = SimpleNamespace(subject="a", timeoutSeconds=1, url=Secret("nats://127.0.0.1:1"))
    publisher = Publisher(SinkContext("q", batch, index, options))
    try:
        found = publisher._messages(pa.RecordBatch.from_pydict({"data": rows}))
        return [message.headers[ID] for message in found]
    finally:
        publisher.close()


def test_ids_are_the_same_in_any_order() -> None:
    first = ids(["x", "y", "x"])
    assert len(set(first)) == 3
    assert sorted(ids(["y", "x", "x"])) == sorted(first)


def test_ids_differ_by_batch_task_and_row() -> None:
    one, other = ids(["x", "y"])
    assert one != other
    assert len({one, *ids(["x"], batch=8), *ids(["x"], index=1), *ids(["xy"])}) == 4
    assert one.startswith("q/7/0/")


def test_row_may_have_its_own_id() -> None:
    options: Any = SimpleNamespace(subject="a", timeoutSeconds=1, url=Secret("nats://127.0.0.1:1"))
    publisher = Publisher(SinkContext("q", 1, 0, options))
    column = pa.array([[(ID, "mine")]], pa.map_(pa.string(), pa.string()))
    rows = pa.RecordBatch.from_pydict({"data": ["x"], "headers": column})
    assert [message.headers for message in publisher._messages(rows)] == [{ID: "mine"}]
    publisher.close()


@pytest.mark.parametrize("value", ["", None])
def test_empty_id_is_replaced(value: str | None) -> None:
    """To the server: a repeated row would be there twice."""
    options: Any = SimpleNamespace(subject="a", timeoutSeconds=1, url=Secret("nats://127.0.0.1:1"))
    publisher = Publisher(SinkContext("q", 1, 0, options))
    column = pa.array([[(ID, value)]], pa.map_(pa.string(), pa.string()))
    rows = pa.RecordBatch.from_pydict({"data": ["x"], "headers": column})
    [message] = publisher._messages(rows)
    assert message.headers[ID].startswith("q/1/0/")
    publisher.close()


@pytest.mark.parametrize(
    ("answer", "is_one", "refusal"),
    [
        (b'{"stream": "S", "seq": 7, "duplicate": true}', True, None),
        (b'{"stream": "S", "seq": 0, "error": {"description": "full"}}', False, "full"),
        (b'{"stream": "S", "seq": 7, "error": "no"}', False, None),
        *[(each, False, None) for each in (b"", b"thank you", b"[1]", b"\xff", b'{"seq": 7}')],
        *[
            (b'{"stream": "%s", "seq": %s}' % each, False, None)
            for each in ((b"", b"7"), (b"S", b'"7"'))
        ],
    ],
)
def test_acknowledgement_is_recognized(answer: bytes, is_one: bool, refusal: str | None) -> None:
    assert (is_acknowledgement(answer), error_in(answer)) == (is_one, refusal)


ACKNOWLEDGED, REFUSED = b'{"stream": "S", "seq": 1}', b'{"error": {"description": "full"}}'


class Answering:
    """A client whose broker acknowledges the first message once more when the second has come."""

    def new_inbox(self) -> str:
        return "inbox"

    async def subscribe(self, subject: str, cb: Any, **limits: int) -> None:
        self._answer = cb

    async def publish(self, subject: str, data: bytes, reply: str, headers: Any) -> None:
        await self._answer(SimpleNamespace(subject="inbox.0", data=ACKNOWLEDGED))
        if subject == "second":
            refusal = self._answer(SimpleNamespace(subject=reply, data=REFUSED))
            self.later = asyncio.get_running_loop().call_later(0.01, asyncio.ensure_future, refusal)


def test_late_reply_is_ignored() -> None:
    async def send() -> None:
        publishing = Publishing(Answering(), None)
        await publishing.start()
        for subject in ("first", "second"):
            await publishing.send([Message(subject, b"", {})])

    with pytest.raises(RuntimeError, match="subject `second`: full"):
        asyncio.run(send())


def test_reused_numbers_are_new_messages(caplog: pytest.LogCaptureFixture) -> None:
    """After a power failure, or from a backup, a stream of the same name and age counts anew."""
    options: Any = SimpleNamespace(stream="S", subject=None, timeoutSeconds=1)
    queue = Queue(SourceContext(0, 1, options))
    try:
        sent = [Place(number, 100 + number, 0) for number in (1, 2, 3)]
        assert [queue._is_new(each) for each in (*sent, *sent)] == [True] * 3 + [False] * 3
        again = Queue(SourceContext(0, 1, options))
        again.restore([json.loads(json.dumps(queue.snapshot()))])
        later = [Place(2, 200, 0), Place(3, 201, 0), Place(2, 200, 0)]
        assert [again._is_new(each) for each in later] == [True, True, False]
        assert "has lost its last messages" in caplog.text
        again.destroy()
    finally:
        queue.destroy()


def test_clock_set_back_makes_nothing_new() -> None:
    """After a failover, say: the next server's clock is some milliseconds behind."""
    options: Any = SimpleNamespace(stream="S", subject=None, timeoutSeconds=1)
    queue = Queue(SourceContext(0, 1, options))
    try:
        sent = [Place(1, 100, 0), Place(2, 110, 0), Place(3, 105, 0)]
        assert [queue._is_new(each) for each in (*sent, *sent)] == [True] * 3 + [False] * 3
        assert queue._is_new(Place(2, 120, 0))  # a message lost, and its number given again
    finally:
        queue.destroy()


def test_late_message_makes_no_other_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A reader that died had it, and the server's clock was wrong for a while, or another's."""
    options: Any = SimpleNamespace(stream="S", subject=None, timeoutSeconds=1)
    queue = Queue(SourceContext(0, 1, options))
    try:
        assert all(queue._is_new(Place(number, 100 + number, 0)) for number in (1, 3, 4))
        late = Place(2, 500, 0)
        again = [late, *(Place(number, 100 + number, 0) for number in (1, 3, 4)), late]
        assert [queue._is_new(each) for each in again] == [True, False, False, False, False]
        assert caplog.text == ""
    finally:
        queue.destroy()


def test_log_of_a_different_subject_is_refused() -> None:
    """Of what is below its floor, nothing would be read, and all of it acknowledged."""
    snapshots = []
    for subject in ("S.a", "S.b"):
        options: Any = SimpleNamespace(stream="S", subject=subject, timeoutSeconds=1)
        queue = Queue(SourceContext(0, 1, options))
        snapshots.append(queue.snapshot())
        queue.destroy()
    queue.restore(snapshots[1:])
    queue.restore([{"created": "", "floor": 0, "ahead": []}])  # of an earlier version
    with pytest.raises(ValueError, match=r"`subject` is 'S.b', and the log in `path` has 'S.a'"):
        queue.restore(snapshots[:1])


def test_messages_in_flight_are_bounded() -> None:
    small = [SimpleNamespace(data=b"x")] * (CHUNK_MESSAGES + 1)
    assert [len(chunk) for chunk in _chunks(iter(small))] == [CHUNK_MESSAGES, 1]
    large = [SimpleNamespace(data=b"x" * 3_000_000)] * 3
    assert [len(chunk) for chunk in _chunks(iter(large))] == [2, 1]
