"""`kafka_py` without a broker: options, partitions, and records that are gone."""

from __future__ import annotations

import logging
import re
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql.types import StructType

from tutorial_pkg import KafkaDataSource
from tutorial_pkg.builder import Options, OptionValues, SinkContext, SplitContext
from tutorial_pkg.connectors.kafka.client import Brokers
from tutorial_pkg.connectors.kafka.options import WRITE
from tutorial_pkg.connectors.kafka.partitions import Partition, Range
from tutorial_pkg.connectors.kafka.records import _OURS, Records
from tutorial_pkg.connectors.kafka.sink import Sender
from tutorial_pkg.connectors.kafka.source import READ, latest, splits
from tutorial_pkg.connectors.kafka.topics import Topics

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}
JSON = '{"a": {"0": 23, "1": -2}}'


def values(**options: str) -> OptionValues:
    return values_of(**{"subscribe": "a", **options})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {},
            "give one of the options `assign`, `subscribe` and `subscribePattern`, got none",
        ),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "got assign and subscribe"),
        ({"subscribe": "a,,b"}, "option `subscribe` must be names with commas between them, got"),
        (
            {"subscribePattern": "("},
            "`subscribePattern` must be a regular expression of Python, wi",
        ),
        ({"subscribePattern": "p[a-z&&[^b]]"}, "`subscribePattern` must be a regular expression"),
        ({"subscribePattern": "p[a-d[m-p]]"}, "without a set inside a set, got 'p[a-d[m-p]]'"),
        ({"subscribePattern": r"p[\]a-c&&b]"}, "without a set inside a set, got"),
        ({"assign": '{"a": 0}'}, """must be JSON such as `{"orders": [0, 1]}`, got '{"a"""),
        ({"assign": "a"}, "`assign` must be JSON such as"),
        ({"assign": '{"a": [0], "a": [1]}'}, "`assign` must be JSON such as"),
        (
            {"subscribe": "a", "startingOffsets": "soon"},
            "option `startingOffsets` must be earliest, latest, or JSON such as "
            '`{"orders": {"0": 23}}` (-2 earliest, -1 latest), got \'soon\'',
        ),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "`startingOffsets` must be"),
        (
            {"subscribe": "a", "startingOffsets": '{"a": {"0": 3}, "a": {"1": 5}}'},
            "`startingOffsets` must be",
        ),
        (
            {"subscribe": "a", "startingOffsets": '{"a": {"0": 3, "00": 5}}'},
            "`startingOffsets` must",
        ),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "`endingOffsets` must be latest, or"),
        ({"subscribe": "a", "endingOffsets": '{"a": {"0": -2}}'}, "`endingOffsets` must be latest"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "must be 1 or more, got '0'"),
        ({"subscribe": "a", "startingTimestamp": "0"}, "unknown option `startingTimestamp`"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        KafkaDataSource({**SERVERS, **options}).schema()


def test_headers_are_a_column_more() -> None:
    source = KafkaDataSource({**SERVERS, "subscribe": "a", "includeHeaders": "true"})
    assert source.schema().endswith("INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>")


@pytest.mark.parametrize("batch", [False, True])
def test_without_servers(batch: bool) -> None:
    source = KafkaDataSource({"subscribe": "a"})
    schema = StructType()
    read = source.reader(schema).partitions if batch else source.streamReader(schema).initialOffset
    with pytest.raises(Exception, match=r"option `kafka\.bootstrap\.servers` is missing; give the"):
        read()


@pytest.mark.parametrize("text", ["2 min", "0"])  # to the client 0 is for ever
def test_a_time_that_is_none_is_named(text: str) -> None:
    options = {"kafka.bootstrap.servers": "a:1", "topic": "t", "kafka.delivery.timeout.ms": text}
    sink = KafkaDataSource(options)
    wanted = f"`kafka.delivery.timeout.ms` must be 1 or more milliseconds, got '{text}'"
    with pytest.raises(Exception, match=re.escape(wanted)):
        sink.streamWriter(StructType().add("value", "string"), False)


@pytest.mark.parametrize("name", ["orders-0@x", "a-b.c-17@y=", "x-1-2@"])
def test_a_partition_is_its_text(name: str) -> None:
    assert str(Partition.parse(name)) == name


# ---- Where to begin ------------------------------------------------------------------------------


def cluster(**ranges: tuple[int, int]) -> Topics:
    """What a broker would tell: `a0=(5, 9)` is partition 0 of topic a, offsets 5 to 8."""
    found = Topics(values())
    held = {Partition(n[0], int(n[1]), "id"): Range(*each) for n, each in ranges.items()}
    found.look = lambda: found.__dict__.update(ranges=held) or held  # type: ignore[method-assign]
    return found


def begins(found: Topics, offset: Any = None, batch: bool = False, **options: str) -> Any:
    context = SplitContext(values(**options), found, batch, offset)
    return splits(context)


def test_where_a_new_query_begins() -> None:
    found = cluster(a0=(5, 9), a1=(0, 3))
    assert begins(found) == {"a-0@id": 9, "a-1@id": 3}
    assert begins(found, batch=True) == {"a-0@id": 5, "a-1@id": 0}
    assert begins(found, startingOffsets="Earliest") == {"a-0@id": 5, "a-1@id": 0}
    assert begins(found, startingOffsets=JSON) == {"a-0@id": 23, "a-1@id": 0}


def test_a_partition_that_is_added_is_read_from_its_beginning() -> None:
    known = {"a-0@id": 7}
    assert begins(cluster(a0=(5, 9), a1=(0, 3)), known)["a-1@id"] == 0


def test_a_pattern_does_not_mean_kafka_s_own_topics() -> None:
    there = {"__consumer_offsets": [0], "__transaction_state": [0], "_a": [0], "b": [0, 1]}
    assert Topics(values_of(subscribePattern=".*"))._wanted(there) == {"_a": [0], "b": [0, 1]}
    own = Topics(values_of(subscribe="__consumer_offsets"))
    assert own._wanted(there) == {"__consumer_offsets": [0]}


@pytest.mark.parametrize("text", ["a[b]c[d]", r"a\[[b]", "a&&[b]", "a[b&]", r"[a\[&\&]"])
def test_a_pattern_that_is_the_same_for_java_is_taken(text: str) -> None:
    assert values_of(subscribePattern=text).subscribePattern == text


def values_of(**options: str) -> OptionValues:
    return Options("kafka_py", READ).parse({**SERVERS, **options})


def test_starting_offsets_name_every_partition() -> None:
    with pytest.raises(
        ValueError, match="`startingOffsets` must name every partition, and lacks `"
    ):
        begins(cluster(a0=(0, 9), a2=(0, 3)), startingOffsets=JSON)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ValueError, match=r"`endingOffsets` is for `spark\.read`: a stream has no"):
        begins(cluster(a0=(0, 9)), endingOffsets="latest")


def test_an_end_before_the_beginning_is_no_batch_without_rows() -> None:
    options = values(startingOffsets=JSON, endingOffsets='{"a": {"0": 7}}')
    context = SplitContext(options, cluster(a0=(5, 30)), batch=True)
    context.connection.look()
    with pytest.raises(ValueError, match="`endingOffsets`: partition `a-0` ends at 7, before it b"):
        latest(context, "a-0@id", 23)


def test_a_level_of_isolation_is_the_same_in_capitals() -> None:
    """The client takes both: driver and tasks must agree on where a partition ends."""
    for level, name in {"READ_COMMITTED": "READ_COMMITTED", "read_uncommitted": ""}.items():
        found = Topics(values(**{"kafka.isolation.level": level}))._isolation()
        assert found.name == (name or "READ_UNCOMMITTED")


# ---- Records that are gone: the tests' broker deletes none, so a real one is played --------------


LOST = {
    "deleted": ({"a-0@id": 2}, "was to be read on from offset 2, but it begins at 5 now"),
    "cut off": ({"a-0@id": 12}, "was to be read on from offset 12, but it ends at 9 now"),
    "vanished": ({"a-7@id": 1}, "partition `a-7` was to be read on, but it is not there any more"),
    "made again": ({"a-0@old": 1}, "but its topic was deleted and made again: rows may be lost"),
}


@pytest.mark.parametrize("what", LOST)
def test_records_that_are_gone_end_the_query_or_are_a_warning(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    offset, text = LOST[what]
    for fails in ("true", "false"):
        context = SplitContext(values(failOnDataLoss=fails), cluster(a0=(5, 9)), offset=offset)

        def ask(context: SplitContext = context) -> None:
            found = splits(context)
            for split in found.keys() & context.offset.keys():
                assert latest(context, split, context.offset[split]) == 9

        if fails == "true":
            with pytest.raises(LookupError, match=re.escape(text)):
                ask()
        else:
            ask()
            ask()
            assert len([told for told in caplog.messages if text in told]) == 1


class Event:
    """What the client hands over: a record, or an event with an error's name."""

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
        return self.stamp

    stamp = (1, 0)

    def key(self) -> None:
        return None

    value = key


class Played:
    """A consumer that plays what brokers say; `places` is where it was told to read."""

    def __init__(self, *heard: list[Event], holds: tuple[int, int] = (7, 10)) -> None:
        self.heard, self.places = list(heard), list[int]()
        self.holds = holds

    def assign(self, places: Any) -> None:
        self.places += [place.offset for place in places]

    def consume(self, count: int, timeout: float) -> list[Event]:
        return self.heard.pop(0)

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return self.holds

    def close(self) -> None:
        self.heard.append([])


def read(monkeypatch: pytest.MonkeyPatch, played: Played, fails: str = "true") -> list[int]:
    monkeypatch.setattr(Brokers, "client", lambda *_, **__: played)
    context = SplitContext(values(failOnDataLoss=fails))
    reading = Records(context, Partition("a", 0, "id"), 3, 10)
    return [at for batch in reading.batches() for at in batch.column("offset").to_pylist()]


def test_records_are_checked_for_broken_bits() -> None:
    """As with Java's client; librdkafka does not by itself."""
    assert _OURS["check.crcs"] is True


def test_marks_of_transactions_are_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = [Event(3), Event(5)], [], [Event(8), Event(10, "_PARTITION_EOF")]
    assert read(monkeypatch, Played(*heard)) == [3, 5, 8]


def test_what_is_behind_the_end_is_the_next_batchs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, Played([Event(3), Event(8)], [Event(10), Event(11)])) == [3, 8]


def test_a_record_without_a_time_has_the_one_of_sparks_own_source() -> None:
    """A millisecond before 1970. The client says 0 for a record of Kafka before 0.10."""
    records = object.__new__(Records)
    records._context = SplitContext(values())
    records._partition = Partition("a", 0, "id")
    event = Event(3)
    event.stamp = (0, 0)
    [row] = records._batch([event]).to_pylist()
    assert (row["timestamp"].timestamp(), row["timestampType"]) == (-0.001, -1)


GONE = [Event(3, "_AUTO_OFFSET_RESET")]


def test_offsets_deleted_since_the_batch_was_planned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LookupError, match="from offset 3, but it begins at 7 now: rows may"):
        read(monkeypatch, Played(GONE))
    caplog.set_level(logging.WARNING)
    played = Played(GONE, [Event(7), Event(8), Event(9)])
    assert read(monkeypatch, played, "false") == [7, 8, 9]
    assert played.places == [3, 7]
    assert "begins at 7 now" in caplog.text


def test_a_log_that_was_cut_before_the_place_to_read_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the election of a leader that had not all of it."""
    with pytest.raises(LookupError, match="from offset 3, but it ends at 2 now"):
        read(monkeypatch, Played(GONE, holds=(0, 2)))
    assert read(monkeypatch, Played(GONE, holds=(0, 2)), "false") == []


def test_what_is_there_is_read_though_the_broker_refused_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(GONE, [Event(3), Event(9)], holds=(0, 10))
    assert read(monkeypatch, played) == [3, 9]
    assert played.places == [3, 3]


def test_a_refusal_behind_records_is_read_on_from_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While Spark was busy, both have come: read from before them, they would be there twice."""
    refused = Event(5, "_AUTO_OFFSET_RESET")
    played = Played([Event(3), Event(4), refused], [Event(5), Event(9)], holds=(0, 10))
    assert read(monkeypatch, played) == [3, 4, 5, 9]
    assert played.places == [3, 5]


def test_a_partition_that_ends_before_the_batch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off = [Event(3)], [Event(4, "_PARTITION_EOF")]
    with pytest.raises(LookupError, match="from offset 4, but it ends at 4 now"):
        read(monkeypatch, Played(*cut_off, holds=(0, 4)))
    assert read(monkeypatch, Played(*cut_off, holds=(0, 4)), "false") == [3]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_broker_that_is_behind_the_leader_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """A follower, or a leader from an election, takes the end for an earlier one at first."""
    behind = [Event(3), Event(4, "_PARTITION_EOF")], [], [Event(4), Event(9)]
    assert read(monkeypatch, Played(*behind), fails) == [3, 4, 9]


@pytest.mark.parametrize("code", [78, 9, 56, 74, 75, 13])
def test_what_brokers_say_after_an_election_passes(code: int) -> None:
    """78: the new leader does not know yet where its partition ends."""
    answers = [KafkaException(KafkaError(code)), "answer"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    assert Brokers.of_source(values()).patiently(ask, lambda: None) == "answer"


@pytest.mark.parametrize("error", ["_NOT_IMPLEMENTED", "_BAD_MSG", "_BAD_COMPRESSION"])
def test_records_that_the_client_cannot_read_end_the_query(
    monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    """It goes on behind those of a form it does not know, or one whose mark of it is broken."""
    heard = [Event(3), Event(4, error), Event(9)]
    with pytest.raises(RuntimeError, match="partition `a-0` from offset 4 cannot be read: broken"):
        read(monkeypatch, Played(heard), "false")


# ---- Writing -------------------------------------------------------------------------------------


class Full:
    """A producer in whose queue there is room for `places` records; each `poll` sends them all."""

    def __init__(self, places: int) -> None:
        self.places, self.sent, self._held = places, list[str](), list[str]()

    def produce(self, topic: str, value: str, *_: Any, **__: Any) -> None:
        if len(self._held) >= self.places:
            raise BufferError
        self._held.append(value)

    def poll(self, seconds: float) -> None:
        self.sent += self._held
        self._held = []

    def __len__(self) -> int:
        return len(self._held)


@pytest.mark.parametrize("places", [0, 1, 2])
def test_a_record_that_the_client_has_no_room_for_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    """Larger than all that it holds: it would be tried again without an end."""
    full = Full(places)
    monkeypatch.setattr(Brokers, "client", lambda *_, **__: full)
    sender = Sender(SinkContext("query", 0, 0, Options("kafka_py", WRITE).parse(SERVERS)))
    rows = pa.RecordBatch.from_pydict({"topic": ["a"] * 3, "value": ["1", "2", "3"]})
    if places:
        sender.send(rows)
        assert full.sent == [b"1", b"2", b"3"]
        return
    with pytest.raises(RuntimeError, match="topic `a`: a record is larger than the client"):
        sender.send(rows)


def test_no_partition_has_a_number_below_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client takes -1 for any partition."""
    monkeypatch.setattr(Brokers, "client", lambda *_, **__: Full(9))
    sender = Sender(SinkContext("query", 0, 0, Options("kafka_py", WRITE).parse(SERVERS)))
    rows = pa.table({"topic": ["a"] * 2, "value": ["1", "2"], "partition": [None, -1]})
    with pytest.raises(ValueError, match="column `partition` cannot hold -1"):
        sender.send(rows.to_batches()[0])
