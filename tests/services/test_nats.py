"""`nats` on a real server: streams, work queues, the sink."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from pyspark.sql import SparkSession

from spark_connector_tests import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from spark_connector_tests.query_process import wait_until
from tests.services.batches import column, read_all, write
from tests.services.nats_streams import SCHEMA, Streams
from tests.services.secrets import SECRET
from tests.stream_runs import Run, running
from tutorial_pkg import NatsDataSource
from tutorial_pkg.builder import Options, SinkContext
from tutorial_pkg.connectors.nats.messages import FIRST_MESSAGES
from tutorial_pkg.connectors.nats.options import FORMAT, WRITE
from tutorial_pkg.connectors.nats.sink import Publisher
from tutorial_pkg.core.spark_versions import ReadAllAvailable
from workbook.services import ServerProcess, start_nats

ALL = ReadAllAvailable()
NAMES = (f"S{number}" for number in count())
UNUSED = "nats://127.0.0.1:9"
SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_nats(tmp_path_factory.mktemp("nats")) as started:
        yield started


@pytest.fixture(scope="module")
def streams(server: ServerProcess) -> Streams:
    return Streams(server.uri)


@pytest.fixture
def name(streams: Streams) -> str:
    """The name of a new stream."""
    name = next(NAMES)
    streams.make(name)
    return name


# ---- The conformance kit -------------------------------------------------------------------------


class OnServer:
    streams: Streams
    server: Server

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use(cls, streams: Streams, server: ServerProcess) -> None:
        cls.streams = streams
        cls.server = Server(server.kill, server.restart, lambda: [server.pid])

    def new(self, queue: bool = False) -> str:
        name = next(NAMES)
        self.streams.make(name, queue)
        return name


@pytest.mark.soak
class TestStream(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        name = self.new()
        return StreamSource(
            NatsDataSource,
            {**self.streams.options, "stream": name},
            number="CAST(data AS STRING)",
            feed=lambda numbers: self.streams.send(f"{name}.numbers", numbers),
            limit={"maxRowsPerTrigger": LIMIT},
            other_parallelism={"parallelism": 3},
            server=self.server,
        )


@pytest.mark.soak
class TestQueue(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        name = self.new(queue=True)

        def feed(numbers: Sequence[int]) -> None:
            """Return when all are acknowledged, so they are in the log."""
            self.streams.send(f"{name}.numbers", numbers)
            wait_until(lambda: not self.streams.left(name), SECONDS, "an empty queue")

        options = {"mode": "queue", "stream": name, "consumer": "spark", "path": folder / "log"}
        return StreamSource(
            NatsDataSource,
            {**self.streams.options, **options},
            number="CAST(data AS STRING)",
            feed=feed,
            feed_when_stopped=False,  # with availableNow it reads its log, not the queue
            not_claimed={
                "limit": "in whole frames",
                "other_parallelism": "always 1",
                "batch_read": "a queue is read by a stream only",
                "two_queries": "each message of a queue goes to one reader",
            },
            server=self.server,
        )


@pytest.mark.soak
class TestSink(OnServer, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        name = self.new()
        reason = "messages are visible as soon as they are sent"
        return StreamSink(
            NatsDataSource,
            lambda: self.streams.values(name),
            {**self.streams.options, "subject": f"{name}.rows"},
            columns=("value AS data",),
            not_claimed={
                "failed_batch": reason,
                "whole_batches": reason,
                "nulls": "a message always has data, possibly empty",
                "batch_write": "only streams are written",
            },
            server=self.server,
        )


# ---- Streams -------------------------------------------------------------------------------------


def reader(streams: Streams, name: str, **options: object) -> Any:
    texts = {key: str(value) for key, value in options.items()}
    return NatsDataSource({**streams.options, "stream": name, **texts}).streamReader(SCHEMA)


def planned(streams: Streams, name: str) -> Any:
    """The partition of a batch with all messages: Spark may repeat it later."""
    stream = reader(streams, name)
    start = stream.initialOffset()
    [part] = stream.partitions(start, stream.latestOffset(start, ALL))
    return part


def texts(numbers: Sequence[int]) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_message_becomes_a_row(streams: Streams, name: str) -> None:
    """A header `Status` makes no message a response of the server."""
    before = datetime.now(UTC).replace(microsecond=0)
    streams.send(f"{name}.a", ["one"], Status="404")
    streams.send(f"{name}.b", ["two"])
    stream = reader(streams, name)
    batches, _ = read_all(stream, stream.initialOffset())
    one, two = [row for batch in batches for row in batch.to_pylist()]
    assert before <= one.pop("timestamp") <= datetime.now(UTC)
    assert one == {
        "subject": f"{name}.a",
        "data": b"one",
        "sequence": 1,
        "headers": [("Status", "404")],
    }
    assert (two["sequence"], two["headers"]) == (2, None)
    stream.stop()


def test_subject_and_start_select_messages(streams: Streams, name: str) -> None:
    for number in range(20):
        streams.send(f"{name}.{'even' if number % 2 == 0 else 'odd'}", [number])
    expected = {
        ("odd", "earliest"): range(1, 20, 2),
        ("none", "earliest"): [],
        (">", "16"): range(15, 20),
        (">", "latest"): [],
    }
    for (subject, start), numbers in expected.items():
        stream = reader(streams, name, subject=f"{name}.{subject}", startingSequence=start)
        batches, _ = read_all(stream, stream.initialOffset())
        assert column(batches, "data") == texts(numbers)
    assert streams.ask(lambda broker: broker.stream_info(name)).state.consumer_count == 0


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_work_queue_is_refused_as_stream(streams: Streams, retention: str) -> None:
    name = next(NAMES)
    streams.ask(lambda broker: broker.add_stream(name=name, retention=retention))
    with pytest.raises(Exception, match=f"ValueError: stream `{name}` .* option `mode` queue"):
        reader(streams, name).initialOffset()


# ---- Messages that are gone ----------------------------------------------------------------------


def test_deleted_messages_are_reported(streams: Streams, name: str, caplog: Any) -> None:
    stream = reader(streams, name)
    _, start = read_all(stream, stream.initialOffset())
    streams.send(f"{name}.a", range(10))
    streams.forget(name, below=5)
    with pytest.raises(Exception, match="failOnDataLoss"):
        stream.latestOffset(start, ALL)
    caplog.set_level(logging.WARNING)
    tolerant = reader(streams, name, failOnDataLoss="false")
    batches, _ = read_all(tolerant, start)
    assert column(batches, "data") == texts(range(4, 10))
    assert f"`{name}`" in caplog.text


def test_messages_deleted_while_reading(streams: Streams, name: str) -> None:
    """The task has its consumer already, and some of the messages."""
    streams.send(f"{name}.a", range(300))
    part = planned(streams, name)
    strict, tolerant = (
        reader(streams, name, failOnDataLoss=fails).read(part) for fails in ("true", "false")
    )
    for batches in (strict, tolerant):
        assert column([next(batches)], "data") == texts(range(FIRST_MESSAGES))
    streams.forget(name, below=200)
    with pytest.raises(Exception, match=f"LookupError: stream `{name}`: it starts at 200"):
        list(strict)
    assert column(list(tolerant), "data") == texts(range(199, 300))


def test_recreated_stream_is_reported(streams: Streams, name: str) -> None:
    """Even if it has grown past the old position."""
    streams.send(f"{name}.a", range(3))
    stream, part = reader(streams, name), planned(streams, name)
    _, end = read_all(stream, stream.initialOffset())
    streams.delete(name)
    with pytest.raises(Exception, match=f"LookupError: there is no stream `{name}`"):
        stream.latestOffset(end, ALL)
    streams.make(name)
    streams.send(f"{name}.a", range(7))
    with pytest.raises(Exception, match="re-created"):
        reader(streams, name).latestOffset(end, ALL)
    with pytest.raises(Exception, match=f"stream `{name}`: it was re-created"):
        list(reader(streams, name).read(part))
    tolerant = reader(streams, name, failOnDataLoss="false")
    assert list(tolerant.read(part)) == []
    batches, start = read_all(tolerant, end)
    assert batches == []
    assert column(read_all(tolerant, start)[0], "data") == texts(range(7))


# ---- Work queues ---------------------------------------------------------------------------------


def working(streams: Streams, name: str, log: Path, **options: object) -> Any:
    defaults = {**streams.options, "mode": "queue", "stream": name, "consumer": "spark"}
    return running(NatsDataSource, log, schema=SCHEMA, **{**defaults, **options})


def numbers_of(run: Run, expected: int) -> list[int]:
    """The numbers in the log, in its order: they are the ends of the subjects."""
    subjects = run.rows_until(lambda rows: len(rows) >= expected)
    return [int(subject.rpartition(".")[2]) for subject in subjects]


def send_numbered(streams: Streams, name: str, numbers: Sequence[int]) -> None:
    for number in numbers:
        streams.send(f"{name}.{number}", ["x"])


def add_consumer(streams: Streams, name: str, **config: Any) -> None:
    """Create the consumer `spark` before the query does."""
    settings = {"ack_policy": AckPolicy.EXPLICIT, **config}
    consumer = ConsumerConfig(durable_name="spark", **settings)
    streams.ask(lambda broker: broker.add_consumer(name, consumer))


def test_redelivered_messages_are_recognized(streams: Streams, name: str, tmp_path: Path) -> None:
    """A consumer that was deleted, during a run or before it, is created again."""
    send_numbered(streams, name, range(10))
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 10) == list(range(10))
        streams.ask(lambda broker: broker.delete_consumer(name, "spark"))
        send_numbered(streams, name, [10])
        assert numbers_of(run, 1) == [10]
        offset = run.offset
    streams.ask(lambda broker: broker.delete_consumer(name, "spark"))
    send_numbered(streams, name, [11])
    with working(streams, name, tmp_path / "log", offset=offset) as run:
        assert numbers_of(run, 1) == [11]


def test_recreated_consumer_is_a_warning(
    streams: Streams, name: str, tmp_path: Path, caplog: Any
) -> None:
    add_consumer(streams, name, deliver_policy=DeliverPolicy.NEW)
    send_numbered(streams, name, [0])
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 1) == [0]
        offset = run.offset
    assert caplog.messages == []
    streams.ask(lambda broker: broker.delete_consumer(name, "spark"))
    send_numbered(streams, name, [1])
    add_consumer(streams, name, deliver_policy=DeliverPolicy.NEW)
    send_numbered(streams, name, [2])
    with working(streams, name, tmp_path / "log", offset=offset) as run:
        assert numbers_of(run, 1) == [2]
    assert "consumer `spark` was re-created" in caplog.text


def test_recreated_queue_counts_from_one(
    streams: Streams, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    send_numbered(streams, name, range(3))
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 3) == [0, 1, 2]
        offset = run.offset
    streams.delete(name)
    streams.make(name)
    send_numbered(streams, name, [7, 8])
    with working(streams, name, tmp_path / "log", offset=offset) as run:
        assert numbers_of(run, 2) == [7, 8]
    assert f"stream `{name}` was re-created" in caplog.text


def test_consumer_with_a_small_limit(streams: Streams, name: str, tmp_path: Path) -> None:
    add_consumer(streams, name, max_ack_pending=7)
    send_numbered(streams, name, range(20))
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 20) == list(range(20))


@pytest.mark.parametrize(
    "config",
    [
        {"deliver_subject": "somewhere"},
        {"ack_policy": AckPolicy.ALL},
        {"headers_only": True},
        {"filter_subject": None},
    ],
)
def test_consumer_that_would_lose_messages_is_refused(
    streams: Streams, name: str, tmp_path: Path, config: dict[str, Any]
) -> None:
    add_consumer(streams, name, **{"filter_subject": f"{name}.a", **config})
    with working(streams, name, tmp_path / "log", subject=f"{name}.a") as run:
        assert "option `consumer`" in run.failure()


# ---- Servers that are absent, or refuse ----------------------------------------------------------


def test_missing_server_is_a_timeout(tmp_path: Path) -> None:
    missing = Streams(UNUSED)
    text = f"TimeoutError: NATS at {UNUSED} does not respond"
    with pytest.raises(Exception, match=text):
        reader(missing, "S", timeoutSeconds=1).initialOffset()
    with working(missing, "S", tmp_path / "log", timeoutSeconds=1) as run:
        assert text in run.failure()


def test_refused_login_ends_at_once(tmp_path: Path) -> None:
    with start_nats(tmp_path, "--user", "spark", "--pass", SECRET) as server:
        streams = Streams(server.uri, user="spark", password=SECRET)
        streams.make("S")
        assert reader(streams, "S", user="spark", password=SECRET).initialOffset()
        with pytest.raises(Exception, match=r"PermissionError: NATS at .* refused") as error:
            reader(streams, "S", user="spark", password=f"not {SECRET}").initialOffset()
        assert SECRET not in str(error.value)
        with pytest.raises(Exception, match="PermissionError: the server does not encrypt"):
            reader(streams, "S", url=server.uri.replace("nats:", "tls:")).initialOffset()


DENIED = """authorization { users: [
    {user: admin, password: p},
    {user: noAck, password: p, permissions: {publish: {deny: ["$JS.ACK.>"]}}},
    {user: noPull, password: p, permissions: {publish: {deny: ["$JS.API.CONSUMER.MSG.>"]}}},
    {user: noRows, password: p, permissions: {publish: {deny: ["S.>"]}}}]}"""


def test_missing_permission_is_named(tmp_path: Path) -> None:
    """The server only reports it: without acknowledgements, it would stop delivering."""
    (tmp_path / "users").write_text(DENIED)
    with start_nats(tmp_path / "nats", "-c", str(tmp_path / "users")) as server:
        streams = Streams(server.uri, user="admin", password="p")
        streams.make("S")
        streams.send("S.a", range(3))
        login = {"password": "p", "timeoutSeconds": "1"}
        with working(streams, "S", tmp_path / "log", **login, user="noAck") as run:
            assert 'publish to "$js.ack' in run.failure()
        stream = reader(streams, "S", **login, user="noPull")
        with pytest.raises(Exception, match=r"PermissionError: .*consumer.msg.next"):
            read_all(stream, stream.initialOffset())
        with pytest.raises(PermissionError, match=r'refused: .* publish to "s.b"'):
            publish(streams, "S.b", **login, user="noRows")


# ---- Writing -------------------------------------------------------------------------------------


def publish(streams: Streams, *subjects: str, **options: str) -> None:
    """Publish empty messages, as a task does."""
    values = Options(FORMAT, WRITE).parse({**streams.options, "timeoutSeconds": "20", **options})
    rows = {"subject": list(subjects), "data": pa.nulls(len(subjects), pa.string())}
    with closing(Publisher(SinkContext(f"query {next(NAMES)}", 0, 0, values))) as task:
        task.send(pa.RecordBatch.from_pydict(rows))


def test_all_columns_and_equal_rows_are_written(
    streams: Streams, name: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = f"value AS data; '{name}.a' AS subject; MAP('kind', 'é:\t,x') AS headers"
    assert write(spark, NatsDataSource, rows, tmp_path, **streams.options) is None
    messages = streams.messages(name)
    assert Counter(message.data for message in messages) == Counter([b"1", b"2", b"2"])
    assert {(message.subject, message.headers["kind"]) for message in messages} == {
        (f"{name}.a", "é:\t,x")
    }
    assert len({message.headers["Nats-Msg-Id"] for message in messages}) == 3


@pytest.mark.parametrize("subject", ["a b", "a..b", "nowhere", ""])
def test_unusable_subject_is_named(streams: Streams, subject: str) -> None:
    with pytest.raises(RuntimeError, match=f"subject `{subject}`"):
        publish(streams, subject)
