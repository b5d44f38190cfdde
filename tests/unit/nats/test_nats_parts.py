"""`nats` without a server: options, places of messages, ids, redelivered messages."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tutorial_pkg import NatsDataSource
from tutorial_pkg.builder import Secret, SinkContext, SourceContext
from tutorial_pkg.connectors.nats.client import NatsClient
from tutorial_pkg.connectors.nats.messages import Place, place_of
from tutorial_pkg.connectors.nats.queue import Queue
from tutorial_pkg.connectors.nats.sink import CHUNK_MESSAGES, ID, Message, Publisher

NEEDED = {"url": "nats://127.0.0.1:1", "stream": "S"}


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"stream": "S"}, "url"),
        ({"url": "x"}, "stream"),
        ({**NEEDED, "mode": "topic"}, "mode"),
        ({**NEEDED, "mode": "queue", "path": "/x"}, "consumer"),
        ({**NEEDED, "mode": "queue", "consumer": "c"}, "path"),
        ({**NEEDED, "startingSequence": "0"}, "startingSequence"),
        ({**NEEDED, "caFile": "/no/such"}, "caFile"),
    ],
)
def test_wrong_option_is_named(options: dict[str, str], option: str) -> None:
    with pytest.raises(ValueError, match=f"option `{option}`"):
        NatsDataSource(options).schema()


@pytest.mark.parametrize("front", ["$JS.ACK", "$JS.ACK.hub.ACCOUNT"])
def test_reply_subject_has_the_place(front: str) -> None:
    reply = f"{front}.S.consumer.1.42.7.1795312435225006363.3"
    if front != "$JS.ACK":
        reply += ".random"
    assert place_of(SimpleNamespace(reply=reply)) == Place(42, 1795312435225006363, 3)


# ---- Writing -------------------------------------------------------------------------------------


def messages(rows: list[str], batch: int = 7, index: int = 0, **columns: Any) -> list[Message]:
    options: Any = SimpleNamespace(
        subject=None if "subject" in columns else "a",
        timeoutSeconds=1,
        url=Secret("nats://127.0.0.1:1"),
    )
    publisher = Publisher(SinkContext("q", batch, index, options))
    try:
        rows_ = pa.RecordBatch.from_pydict({"data": rows, **columns})
        return list(publisher._messages(rows_))
    finally:
        publisher.close()


def ids(rows: list[str], **changes: Any) -> list[str]:
    return [message.headers[ID] for message in messages(rows, **changes)]


def test_ids_are_the_same_in_any_order() -> None:
    first = ids(["x", "y", "x"])
    assert len(set(first)) == 3
    assert sorted(ids(["y", "x", "x"])) == sorted(first)


def test_ids_differ_by_batch_task_and_row() -> None:
    one, two = ids(["x", "y"])
    assert len({one, two, *ids(["x"], batch=8), *ids(["x"], index=1), *ids(["xy"])}) == 5


@pytest.mark.parametrize("value", ["mine", "", None])
def test_row_may_have_its_own_id(value: str | None) -> None:
    column = pa.array([[(ID, value)]], pa.map_(pa.string(), pa.string()))
    [message] = messages(["x"], headers=column)
    assert (message.headers[ID] == "mine") == (value == "mine")
    assert message.headers[ID]


@pytest.mark.parametrize("pair", [("é", "x"), ("a b", "x"), ("a", " x"), ("a", "x\ny")])
def test_header_that_cannot_be_sent_is_an_error(pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="column `headers`"):
        messages(["x"], headers=pa.array([[pair]], pa.map_(pa.string(), pa.string())))


@pytest.mark.parametrize("subject", ["$JS.API.STREAM.DELETE.S", "$SYS.REQ"])
def test_servers_own_subject_is_an_error(subject: str) -> None:
    with pytest.raises(ValueError, match="subject"):
        messages(["x"], subject=[subject])


@pytest.mark.parametrize(
    ("rows", "size", "chunks"),
    [(CHUNK_MESSAGES + 1, 1, [CHUNK_MESSAGES, 1]), (3, 3_000_000, 3 * [1])],
)
def test_messages_in_flight_are_bounded(
    rows: int, size: int, chunks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    monkeypatch.setattr(NatsClient, "ask", lambda _, publish: sizes.append(len(publish.args[0])))
    options: Any = SimpleNamespace(subject="a", timeoutSeconds=1)
    publisher = Publisher(SinkContext("q", 0, 0, options))
    publisher.send(pa.RecordBatch.from_pydict({"data": ["x" * size] * rows}))
    publisher.close()
    assert sizes == chunks


# ---- Queues --------------------------------------------------------------------------------------


@pytest.fixture
def queue() -> Iterator[Queue]:
    options: Any = SimpleNamespace(stream="S", subject="S.b", timeoutSeconds=1)
    queue = Queue(SourceContext(0, 1, options))
    yield queue
    queue.destroy()


def test_queue_has_one_instance() -> None:
    with pytest.raises(ValueError, match="`parallelism`"):
        Queue(SourceContext(0, 2, SimpleNamespace()))  # type: ignore[arg-type]


def test_lost_messages_reuse_their_numbers(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    """After a power failure of the server, the stream has the same name and age."""
    created = SimpleNamespace(isoformat=lambda: "then")

    def stream(last: int) -> Any:
        return SimpleNamespace(created=created, state=SimpleNamespace(last_seq=last))

    queue._compare_stream(stream(3))
    assert [queue._is_new(number) for number in (1, 2, 3, 3)] == [True, True, True, False]
    queue._compare_stream(stream(3))
    assert not queue._is_new(2)
    queue._compare_stream(stream(1))
    assert queue._is_new(2)
    assert "has lost its last messages" in caplog.text


def test_log_of_a_different_subject_is_refused(queue: Queue) -> None:
    """Messages below its floor would be acknowledged without being read."""
    queue.restore([{"created": "", "floor": 0, "ahead": []}])  # of an earlier version
    queue.restore([queue.snapshot()])
    with pytest.raises(ValueError, match="`subject`"):
        queue.restore([{**queue.snapshot(), "subject": "S.a"}])
