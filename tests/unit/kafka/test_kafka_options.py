"""`kafka_py` without a broker: options, offsets, and lost records."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from tutorial_pkg import KafkaDataSource
from tutorial_pkg.builder import Options, OptionValues, SinkContext, SplitContext
from tutorial_pkg.connectors.kafka.client import Brokers
from tutorial_pkg.connectors.kafka.options import WRITE
from tutorial_pkg.connectors.kafka.records import Records
from tutorial_pkg.connectors.kafka.sink import Sender
from tutorial_pkg.connectors.kafka.source import READ, Partition, Topics, look

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}
JSON = '{"a": {"0": 23, "1": -2}}'


def values(**options: str) -> OptionValues:
    return values_of(**{"subscribe": "a", **options})


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({}, "subscribe"),
        ({"subscribe": "a", "subscribePattern": "a"}, "subscribePattern"),
        ({"subscribe": "a,,b"}, "subscribe"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"assign": '{"a": [0]}'}, "assign"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": 1}, "a": {}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets"),
        ({"subscribe": "a", "startingTimestamp": "0"}, "startingTimestamp"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset"),
    ],
)
def test_wrong_option_is_named(options: dict[str, str], option: str) -> None:
    with pytest.raises(ValueError, match=f"`{option}`"):
        KafkaDataSource({**SERVERS, **options}).schema()


# ---- Offsets -------------------------------------------------------------------------------------


def values_of(**options: str) -> OptionValues:
    return Options("kafka_py", READ).parse({**SERVERS, **options})


def look_at(*partitions: Partition, offset: Any = None, batch: bool = False, **options: str) -> Any:
    """What `look` returns when brokers have these partitions: name to (first, end)."""
    topics = Topics(values())
    topics.partitions = lambda: list(partitions)  # type: ignore[method-assign]
    splits = look(SplitContext(values(**options), topics, batch, offset))
    assert all(split.identity == "id" for split in splits.values())
    return {name: (split.first, split.end) for name, split in splits.items()}


A0, A1 = Partition("a", 0, "id", 5, 9), Partition("a", 1, "id", 0, 3)


def test_new_query_starts_where_the_option_says() -> None:
    assert look_at(A0, A1) == {"a-0": (9, 9), "a-1": (3, 3)}
    assert look_at(A0, A1, batch=True) == {"a-0": (5, 9), "a-1": (0, 3)}
    assert look_at(A0, A1, startingOffsets="Earliest") == {"a-0": (5, 9), "a-1": (0, 3)}
    assert look_at(A0, A1, startingOffsets=JSON) == {"a-0": (23, 9), "a-1": (0, 3)}


def test_pattern_excludes_kafkas_own_topics() -> None:
    existing = {"__consumer_offsets": [0], "__transaction_state": [0], "_a": [0], "b": [0, 1]}
    assert Topics(values_of(subscribePattern=".*"))._chosen(existing) == {"_a": [0], "b": [0, 1]}
    own = Topics(values_of(subscribe="__consumer_offsets"))
    assert own._chosen(existing) == {"__consumer_offsets": [0]}


def test_starting_offsets_must_name_every_partition() -> None:
    with pytest.raises(ValueError, match=r"`startingOffsets` must name every .* lacks `a-2`"):
        look_at(A0, Partition("a", 2, "id", 0, 3), startingOffsets=JSON)


def test_batch_ends_after_its_start() -> None:
    with pytest.raises(ValueError, match=r"`endingOffsets` is for `spark\.read`"):
        look_at(A0, endingOffsets="latest")
    with pytest.raises(ValueError, match="partition `a-0` would be read from offset 23 to 7:"):
        look_at(A0, batch=True, startingOffsets=JSON, endingOffsets='{"a": {"0": 7}}')
    with pytest.raises(ValueError, match="partition `a-0` would be read from offset 23 to 9:"):
        look_at(A0, batch=True, startingOffsets=JSON)


# ---- Lost records: the tests' broker deletes none, so the client's events are played -------------


class Event:
    """A record, or an event with the name of an error."""

    def __init__(self, offset: int, error: str | None = None) -> None:
        self._offset, self._error = offset, error

    def error(self) -> Any:
        return self if self._error else None

    def name(self) -> str | None:
        return self._error

    def __getattr__(self, name: str) -> Any:
        """`str()`, as a method of that name would hide the type."""
        return {"str": lambda: "broken"}[name]

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> None:
        return None

    value = key


class Played:
    """A consumer that plays events; `places` are the offsets it was assigned."""

    def __init__(self, *events: list[Event], holds: tuple[int, int] = (7, 10)) -> None:
        self.events, self.places = list(events), list[int]()
        self.holds = holds

    def assign(self, places: Any) -> None:
        self.places += [place.offset for place in places]

    def consume(self, count: int, timeout: float) -> list[Event]:
        return self.events.pop(0)

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return self.holds

    def close(self) -> None:
        self.events.append([])


def read(monkeypatch: pytest.MonkeyPatch, played: Played, fails: str = "true") -> list[int]:
    monkeypatch.setattr(Brokers, "client", lambda *_, **__: played)
    context = SplitContext(values(failOnDataLoss=fails))
    reading = Records(context, "a", 0, 3, 10)
    return [at for batch in reading.batches() for at in batch.column("offset").to_pylist()]


def test_transaction_markers_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [Event(3), Event(5)], [], [Event(8), Event(10, "_PARTITION_EOF")]
    assert read(monkeypatch, Played(*events)) == [3, 5, 8]


GONE = [Event(3, "_AUTO_OFFSET_RESET")]


def test_deleted_offsets_are_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LookupError, match="from offset 3, but it starts at 7 now"):
        read(monkeypatch, Played(GONE))
    caplog.set_level(logging.WARNING)
    played = Played(GONE, [Event(7), Event(8), Event(9)])
    assert read(monkeypatch, played, "false") == [7, 8, 9]
    assert played.places == [3, 7]
    assert "starts at 7 now" in caplog.text


def test_truncated_partition_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the election of a leader that lacked records."""
    with pytest.raises(LookupError, match="from offset 3 to 10, but it ends at 2 now"):
        read(monkeypatch, Played(GONE, holds=(0, 2)))
    assert read(monkeypatch, Played(GONE, holds=(0, 2)), "false") == []


def test_refusal_after_records_resumes_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading from before them would duplicate them."""
    refused = Event(5, "_AUTO_OFFSET_RESET")
    played = Played([Event(3), Event(4), refused], [Event(5), Event(9)], holds=(0, 10))
    assert read(monkeypatch, played) == [3, 4, 5, 9]
    assert played.places == [3, 5]


def test_partition_ending_early_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off = [Event(3)], [Event(4, "_PARTITION_EOF")]
    with pytest.raises(LookupError, match="from offset 4 to 10, but it ends at 4 now"):
        read(monkeypatch, Played(*cut_off, holds=(0, 4)))
    assert read(monkeypatch, Played(*cut_off, holds=(0, 4)), "false") == [3]


def test_lagging_follower_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader reports an end that is too early at first."""
    behind = [Event(3), Event(4, "_PARTITION_EOF")], [], [Event(4), Event(9)]
    assert read(monkeypatch, Played(*behind, holds=(0, 10))) == [3, 4, 9]


def test_errors_of_an_election_are_transient() -> None:
    for code in (KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH):
        with pytest.raises(TimeoutError), Brokers(values()).responding():
            raise KafkaException(KafkaError(code))


def test_refusal_is_reported_until_a_request_succeeds() -> None:
    brokers, closed = Brokers(values()), KafkaException(KafkaError(KafkaError._TRANSPORT))
    brokers.note(KafkaError(KafkaError._SSL))
    brokers.note(closed.args[0])
    for error in (PermissionError, TimeoutError):
        with pytest.raises(error), brokers.responding():
            raise closed
        with brokers.responding():
            pass


def test_unreadable_records_end_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client itself would skip them."""
    events = [Event(3), Event(4, "_BAD_MSG"), Event(9)]
    with pytest.raises(RuntimeError, match="partition `a-0` from offset 4 cannot be read: broken"):
        read(monkeypatch, Played(events), "false")


# ---- Writing -------------------------------------------------------------------------------------


class Full:
    """A producer with room for one record."""

    def __init__(self) -> None:
        self.sent, self._held = list[bytes](), list[bytes]()

    def produce(self, topic: str, value: bytes, *_: Any) -> None:
        if self._held:
            raise BufferError
        self._held.append(value)

    def flush(self) -> None:
        self.sent += self._held
        self._held = []

    def poll(self, seconds: float) -> None: ...


def test_full_buffer_is_sent_first(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full()
    monkeypatch.setattr(Brokers, "client", lambda *_, **__: full)
    sender = Sender(SinkContext("query", 0, 0, Options("kafka_py", WRITE).parse(SERVERS)))
    rows = pa.RecordBatch.from_pydict({"topic": ["a"] * 3, "value": ["1", "2", "3"]})
    sender.send(rows)
    sender.flush()
    assert full.sent == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"partition": [None, -1], "topic": ["a"] * 2}, "partition"),
        ({"topic": ["a", None]}, "topic"),
    ],
)
def test_unfit_value_names_its_column(
    columns: dict[str, Any], column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client takes -1 for any partition."""
    monkeypatch.setattr(Brokers, "client", lambda *_, **__: Full())
    sender = Sender(SinkContext("query", 0, 0, Options("kafka_py", WRITE).parse(SERVERS)))
    rows = pa.RecordBatch.from_pydict({"value": ["1", "2"], **columns})
    with pytest.raises(ValueError, match=f"column `{column}`"):
        sender.send(rows)
