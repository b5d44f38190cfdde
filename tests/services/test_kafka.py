"""`kafka_py` on a real broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_connector_tests import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from tests.faults.cutting_proxy import CuttingProxy
from tests.services.batches import column, read_all, write
from tests.services.kafka_topics import SCHEMA, SCHEMA_WITH_HEADERS, Topics
from tests.services.secrets import SECRET, sightings
from tests.values import ODD_TEXT
from tutorial_pkg import KafkaDataSource, last_error
from tutorial_pkg.builder import Options, SinkContext
from tutorial_pkg.connectors.kafka.options import FORMAT, WRITE
from tutorial_pkg.connectors.kafka.sink import Sender
from tutorial_pkg.core.spark_versions import ReadAllAvailable
from workbook.services import ServerProcess, start_kafka

ALL = ReadAllAvailable()
NAMES = (f"topic.{number}" for number in count())
EARLIEST = {"startingOffsets": "earliest"}
UNUSED = "127.0.0.1:9"  # the discard port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_kafka(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="module")
def topics(server: ServerProcess) -> Topics:
    return Topics(server.uri)


@pytest.fixture
def topic(topics: Topics) -> str:
    """A topic of two partitions."""
    name = next(NAMES)
    topics.make(name, 2)
    return name


# ---- The conformance kit -------------------------------------------------------------------------


class OnServer:
    """Through a proxy that can refuse: a broker that is killed has lost its topics."""

    topics: Topics
    server: Server

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with CuttingProxy(0) as proxy:
            address = f"127.0.0.1:{proxy.port}"
            with start_kafka(tmp_path_factory.mktemp("kafka"), address) as broker:
                proxy.target = int(broker.uri.rpartition(":")[2])
                cls.topics = Topics(address)
                cls.server = Server(proxy.refuse, proxy.accept, lambda: [broker.pid])
                yield


@pytest.mark.soak
class TestSource(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        topic = next(NAMES)
        self.topics.make(topic, 2)

        def feed(numbers: Sequence[int]) -> None:
            self.topics.send(topic, numbers)

        return StreamSource(
            KafkaDataSource,
            {**self.topics.options, **EARLIEST, "subscribe": topic},
            number="CAST(value AS STRING)",
            feed=feed,
            limit={"maxOffsetsPerTrigger": LIMIT},
            other_parallelism={"minPartitions": 5},
            server=self.server,
        )


@pytest.mark.soak
class TestSink(OnServer, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        topic = next(NAMES)
        self.topics.make(topic, 2)
        return StreamSink(
            KafkaDataSource,
            lambda: self.topics.values(topic),
            {**self.topics.options, "topic": topic},
            at_least_once=True,
            not_claimed={"batch_write": "only streams are written"},
            server=self.server,
        )


# ---- Reading -------------------------------------------------------------------------------------


def reader(topics: Topics, **options: object) -> Any:
    texts = {name: str(value) for name, value in options.items()}
    source = KafkaDataSource({**topics.options, **EARLIEST, **texts})
    return source.streamReader(SCHEMA_WITH_HEADERS if "includeHeaders" in options else SCHEMA)


def test_record_has_sparks_columns(topics: Topics, topic: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    headers = [("a", b"1"), ("a", None)]
    topics.send(topic, ["one"], key="k", partition=1, headers=headers)
    topics.send(topic, ["two"], partition=1)
    stream = reader(topics, subscribe=topic, includeHeaders="true")
    batches, _ = read_all(stream, stream.initialOffset())
    one, two = [row for batch in batches for row in batch.to_pylist()]
    assert before <= one.pop("timestamp") <= datetime.now(UTC)
    assert one == {
        "key": b"k",
        "value": b"one",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
    }
    assert (two["key"], two["offset"], two["headers"]) == (None, 1, None)


def test_later_topic_is_read_from_its_start(topics: Topics) -> None:
    """By the topic's name; an added partition is a unit test."""
    stream = reader(topics, subscribePattern=r"later\.[0-9]+", startingOffsets="latest")
    batches, start = read_all(stream, stream.initialOffset())
    assert batches == []
    topics.make("later.1")
    topics.make("not.later.1")
    topics.send("later.1", ["x"])
    entering = stream.latestOffset(start, ALL)
    assert column(read_all(stream, entering)[0], "topic") == ["later.1"]


def test_open_transaction_is_awaited(topics: Topics, topic: str) -> None:
    stream = reader(topics, subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    writer = Producer(
        {**topics.settings, "batch.num.messages": 1, "transactional.id": f"of {topic}"}
    )
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(topic, "one", partition=0)
    assert writer.flush(20) == 0
    batches, end = read_all(stream, stream.initialOffset())
    assert batches == []
    writer.commit_transaction(20)
    assert column(read_all(stream, end)[0], "value") == [b"one"]
    stream.stop()


# ---- Records that are gone -----------------------------------------------------------------------


def test_recreated_topic_is_reported(topics: Topics, topic: str) -> None:
    """Even if it has grown past the old offset, and to a batch planned before."""
    topics.send(topic, range(3), partition=0)
    stream = reader(topics, subscribe=topic)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    [part] = stream.partitions(start, end)
    topics.delete(topic)
    with pytest.raises(Exception, match=f"LookupError: there is no topic `{topic}`"):
        stream.latestOffset(end, ALL)
    topics.make(topic, 2)
    topics.send(topic, range(20), partition=0)
    for again in (stream, reader(topics, subscribe=topic)):
        with pytest.raises(Exception, match="re-created"):
            again.latestOffset(end, ALL)
    with pytest.raises(Exception, match="re-created"):
        list(reader(topics, subscribe=topic).read(part))
    tolerant = reader(topics, subscribe=topic, failOnDataLoss="false")
    assert list(tolerant.read(part)) == []
    batches, start = read_all(tolerant, end)
    assert batches == []
    assert len(column(read_all(tolerant, start)[0], "value")) == 20


# ---- Brokers that are absent, or refuse ----------------------------------------------------------


def test_missing_broker_does_not_respond() -> None:
    hasty = reader(Topics(UNUSED), subscribe="x", **{"kafkaConsumer.pollTimeoutMs": 300})
    with pytest.raises(Exception, match="does not respond"):
        hasty.initialOffset()


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("kafka.no.such", "1", "no.such"),
        ("kafka.sasl.jaas.config", "${env:HIDDEN}", "JAAS"),
        ("kafka.ssl.key.pem", "${env:HIDDEN}", "pem"),
    ],
)
def test_option_refused_by_the_client_is_named(
    topics: Topics, topic: str, option: str, value: str, text: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HIDDEN", SECRET)
    options = {"kafka.security.protocol": "SSL", option: value}
    with pytest.raises(Exception, match=r"ValueError: .*option `kafka\.…` is wrong") as error:
        reader(topics, subscribe=topic, **options).initialOffset()
    assert text in str(error.value)
    assert SECRET not in str(error.value)


# ---- Writing -------------------------------------------------------------------------------------


def test_all_columns_are_written(
    topics: Topics, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = (
        f"CONCAT('k', value) AS key; CAST(value AS BINARY) AS value; '{topic}' AS topic; "
        "IF(value = '2', NULL, 1) AS partition; "
        "ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
    )
    assert write(spark, KafkaDataSource, rows, tmp_path, **topics.options) is None
    one, *twos = sorted(topics.records(topic), key=lambda record: record.value())
    assert [record.value() for record in twos] == [b"2", b"2"]
    assert (one.key(), one.value(), one.partition()) == (b"k1", b"1", 1)
    assert one.headers() == [("h", b"x")]


def test_odd_records_round_trip(topics: Topics, topic: str) -> None:
    text = ODD_TEXT.strip("\0")
    odd = [{"key": text, "value": None}, {"key": text, "value": b"\0\xff"}]
    keys, values, headers = [b"", None, b"\0"], [None, b"", b"\xff"], [None, odd, odd[:1]]
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    columns = {"key": keys, "value": values, "headers": pa.array(headers, pairs)}
    given = {**topics.options, "topic": topic, "kafka.batch.num.messages": "1"}
    stream = reader(topics, subscribe=topic, includeHeaders="true")
    start = stream.initialOffset()
    with closing(Sender(SinkContext("query", 0, 0, Options(FORMAT, WRITE).parse(given)))) as task:
        task.send(pa.RecordBatch.from_pydict(columns))
        task.flush()
    read = [row for batch in read_all(stream, start)[0] for row in batch.to_pylist()]
    assert {row["value"]: (row["key"], row["headers"] or None) for row in read} == {
        value: (key, header) for key, value, header in zip(keys, values, headers, strict=True)
    }
    stream.stop()


def test_writing_to_missing_broker_times_out(spark: SparkSession, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": UNUSED, "kafka.delivery.timeout.ms": 500}
    error = write(spark, KafkaDataSource, "value", tmp_path, **options, topic="x")
    assert "3 of 3 records were not written; topic `x`: " in str(error)


# ---- Secrets -------------------------------------------------------------------------------------


def test_secret_is_nowhere_visible(
    topics: Topics, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    topics.send(topic, ["1"])
    options = {
        **topics.options,
        **EARLIEST,
        "subscribe": topic,
        "kafka.sasl.password": SECRET,
        "kafka.ssl.key.password": SECRET,
    }
    spark.dataSource.register(KafkaDataSource)
    assert sightings(spark, "kafka_py", options, tmp_path) == []


@pytest.mark.parametrize("option", ["kafka.ssl.key.pem", "kafka.sasl.jaas.config"])
def test_secret_spark_would_show_is_refused(
    option: str, topics: Topics, spark: SparkSession
) -> None:
    spark.dataSource.register(KafkaDataSource)
    given = {**topics.options, "subscribe": "x", option: SECRET}
    with pytest.raises(PySparkException) as error:
        spark.readStream.format("kafka_py").options(**given).load()
    assert f"Spark would show option `{option}` in its plans" in str(last_error(error.value))
    assert SECRET not in str(error.value)
