"""`nats` on a real server: streams, work queues, the sink."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from spark_connector_tests import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from spark_connector_tests.query_process import wait_until
from tests.properties import TEXTS, holds
from tests.services.batches import column
from tests.services.nats_streams import SCHEMA, Streams
from tests.services.secrets import SECRET, sightings
from tests.soak import few_or_many
from tests.stream_runs import Run, running
from tutorial_pkg import NatsDataSource, last_error
from tutorial_pkg.builder import Buffer, Options, SinkContext, SourceContext
from tutorial_pkg.connectors.nats import publishing
from tutorial_pkg.connectors.nats.options import FORMAT, READ_QUEUE, WRITE
from tutorial_pkg.connectors.nats.pull import Pull
from tutorial_pkg.connectors.nats.queue import Queue
from tutorial_pkg.connectors.nats.sink import Publisher
from tutorial_pkg.connectors.nats.stream import Reading
from tutorial_pkg.core.spark_versions import ReadAllAvailable
from workbook.services import ServerProcess, start_nats

ALL = ReadAllAvailable()
NAMES = (f"S{number}" for number in count())
NOBODY = "nats://127.0.0.1:9"
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
    made = next(NAMES)
    streams.make(made)
    return made


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
        made = next(NAMES)
        self.streams.make(made, queue)
        return made


@pytest.mark.soak
class TestStream(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        name = self.new()

        def feed(numbers: Sequence[int]) -> None:
            self.streams.send(f"{name}.numbers", numbers)

        return StreamSource(
            NatsDataSource,
            {**self.streams.options, "stream": name},
            number="CAST(data AS STRING)",
            feed=feed,
            limit={"maxRowsPerTrigger": LIMIT},
            other_parallelism={"parallelism": 3},
            server=self.server,
        )


@pytest.mark.soak
class TestQueue(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        name = self.new(queue=True)

        def feed(numbers: Sequence[int]) -> None:
            """Returns when all are acknowledged: so they are in the log."""
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
                "two_queries": "a queue: a message is for one of those that read it",
            },
            server=self.server,
        )


@pytest.mark.soak
class TestSink(OnServer, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        name = self.new()
        reason = "messages are there when they are sent"
        return StreamSink(
            NatsDataSource,
            lambda: self.streams.values(name),
            {**self.streams.options, "subject": f"{name}.rows"},
            columns=("value AS data",),
            not_claimed={
                "failed_batch": reason,
                "whole_batches": reason,
                "nulls": "a message has data, if only of no bytes",
                "batch_write": "a stream's rows are written only",
            },
            server=self.server,
        )


# ---- Streams -------------------------------------------------------------------------------------


def reader(streams: Streams, name: str, **options: object) -> Any:
    given = {key: str(value) for key, value in options.items()}
    return NatsDataSource({**streams.options, "stream": name, **given}).streamReader(SCHEMA)


def read_all(stream: Any, start: Any) -> tuple[list[Any], Any]:
    end = stream.latestOffset(start, ALL)
    parts = stream.partitions(start, end)
    return [batch for part in parts for batch in stream.read(part)], end


def test_message_becomes_a_row(streams: Streams, name: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    streams.send(f"{name}.a", ["one"], kind="x")
    streams.send(f"{name}.b", ["two"])
    stream = reader(streams, name)
    batches, _ = read_all(stream, stream.initialOffset())
    one, two = [row for batch in batches for row in batch.to_pylist()]
    assert before <= one.pop("timestamp") <= datetime.now(UTC)
    assert one == {
        "subject": f"{name}.a",
        "data": b"one",
        "sequence": 1,
        "headers": [("kind", "x")],
    }
    assert (two["sequence"], two["headers"]) == (2, None)
    stream.stop()


def test_subject_filters_messages(streams: Streams, name: str) -> None:
    for number in range(20):
        streams.send(f"{name}.{'even' if number % 2 == 0 else 'odd'}", [number])
    stream = reader(streams, name, subject=f"{name}.odd")
    start = stream.initialOffset()
    batches, end = read_all(stream, start)
    assert column(batches, "data") == [b"%d" % number for number in range(1, 20, 2)]
    none = reader(streams, name, subject=f"{name}.none")
    assert read_all(none, start) == ([], end)


def test_subject_that_is_not_utf8_is_read(streams: Streams, name: str, tmp_path: Path) -> None:
    """A server takes any bytes; the client alone would never get past such a message."""
    place = urlsplit(streams.uri)
    with socket.create_connection((str(place.hostname), int(place.port or 0))) as device:
        device.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
        for subject in (b"a", b"Z\xfcrich", b"b"):
            device.sendall(b"PUB %s.%s 1\r\nx\r\n" % (name.encode(), subject))
        device.sendall(b"PING\r\n")
        while not device.recv(4096).endswith(b"PONG\r\n"):
            pass
    subjects = [f"{name}.{subject}" for subject in ("a", "Z\ufffdrich", "b")]
    stream = reader(streams, name, timeoutSeconds=5)
    assert column(read_all(stream, stream.initialOffset())[0], "subject") == subjects
    with working(streams, name, tmp_path / "log", timeoutSeconds=5) as run:
        assert run.rows_until(lambda rows: len(rows) == 3) == subjects


def test_new_query_starts_where_the_option_says(streams: Streams, name: str) -> None:
    streams.send(f"{name}.a", range(5))
    for place, found in {"latest": [], "4": [b"3", b"4"], "earliest": [b"0", b"1"]}.items():
        stream = reader(streams, name, startingSequence=place)
        batches, _ = read_all(stream, stream.initialOffset())
        assert column(batches, "data")[:2] == found


def test_read_with_spark(streams: Streams, name: str, spark: SparkSession) -> None:
    spark.dataSource.register(NatsDataSource)
    streams.send(f"{name}.a", range(2_500))
    rows = spark.read.format("nats").options(**streams.options, stream=name, parallelism=2).load()
    assert rows.select(spark_partition_id()).distinct().count() == 2
    found = sorted(int(row.data) for row in rows.select("data").collect())
    assert found == list(range(2_500))


def test_no_consumer_stays_on_the_server(streams: Streams, name: str) -> None:
    streams.send(f"{name}.a", range(10))
    stream = reader(streams, name)
    read_all(stream, stream.initialOffset())
    info = streams.ask(lambda broker: broker.stream_info(name))
    assert info.state.consumer_count == 0


# ---- Messages that are gone ----------------------------------------------------------------------


def test_deleted_messages_are_reported(streams: Streams, name: str, caplog: Any) -> None:
    stream = reader(streams, name)
    _, start = read_all(stream, stream.initialOffset())
    streams.send(f"{name}.a", range(10))
    streams.forget(name, below=5)
    text = f"`{name}`"
    with pytest.raises(Exception, match="failOnDataLoss"):
        stream.latestOffset(start, ALL)
    caplog.set_level(logging.WARNING)
    going_on = reader(streams, name, failOnDataLoss="false")
    ends = [going_on.latestOffset(start, ALL) for _ in range(2)]
    assert len([told for told in caplog.messages if text in told]) == 1
    batches, end = read_all(going_on, start)
    assert column(batches, "data") == [b"%d" % number for number in range(4, 10)]
    assert ends == [end, end]


def test_messages_deleted_after_planning(streams: Streams, name: str, caplog: Any) -> None:
    """Spark repeats a batch without asking the driver's side how far the stream goes."""
    streams.send(f"{name}.a", range(10))
    planning = reader(streams, name)
    start = planning.initialOffset()
    end = planning.latestOffset(start, ALL)
    [part] = planning.partitions(start, end)
    streams.forget(name, below=5)
    text = f"stream `{name}`: it starts at 5, and 1 was next"
    with pytest.raises(Exception, match=re.escape(text)):
        list(reader(streams, name).read(part))
    caplog.set_level(logging.WARNING)
    batches = list(reader(streams, name, failOnDataLoss="false").read(part))
    assert column(batches, "data") == [b"%d" % number for number in range(4, 10)]
    assert text in caplog.text


def test_messages_deleted_while_reading(streams: Streams, name: str, caplog: Any) -> None:
    """The task has its consumer already, and some of the messages."""
    streams.send(f"{name}.a", range(300))
    planning = reader(streams, name)
    start = planning.initialOffset()
    [part] = planning.partitions(start, planning.latestOffset(start, ALL))
    text = f"stream `{name}`: it starts at 200, and 51 was next"
    failing, going_on = (reader(streams, name, failOnDataLoss=fails) for fails in ("true", "false"))
    reading = [each.read(part) for each in (failing, going_on)]
    found = [column([next(each)], "data") for each in reading]
    assert found[0] == found[1] == [b"%d" % number for number in range(50)]
    streams.forget(name, below=200)
    with pytest.raises(Exception, match=re.escape(text)):
        list(reading[0])
    rest = column(list(reading[1]), "data")
    assert rest == [b"%d" % number for number in range(199, 300)]
    assert text in caplog.text


def test_messages_that_a_server_sends_twice_are_asked_for_again(
    streams: Streams, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is played. Two clusters that are leaf nodes of each other have done so."""
    take, taken = Pull._receive, count(1)

    async def take_twice(pull: Pull, message: Any) -> None:
        await take(pull, message)
        if next(taken) <= 30:
            await take(pull, message)

    streams.send(f"{name}.a", range(120))
    stream = reader(streams, name, timeoutSeconds=10)
    monkeypatch.setattr(Pull, "_receive", take_twice)
    batches, _ = read_all(stream, stream.initialOffset())
    assert column(batches, "sequence") == list(range(1, 121))


@pytest.mark.parametrize("subject", [None, "a"])
def test_a_server_of_a_cluster_that_lags_behind_is_asked_again(
    streams: Streams, name: str, monkeypatch: pytest.MonkeyPatch, subject: str | None
) -> None:
    """It is played. On a real one, 3 of 40 batches that were read at such a moment were empty."""
    streams.send(f"{name}.a", range(5))
    streams.send(f"{name}.b", range(2))  # of another subject: so nobody knows by the numbers
    begin, begun = Reading._begin, list[Any]()

    async def lagging(reading: Any, broker: Any) -> None:
        await begin(reading, broker)
        reading._replicas = 3
        begun.append(broker)
        if len(begun) == 1:
            reading._pending = 0

    async def check_planned(reading: Any, broker: Any) -> None: ...

    monkeypatch.setattr(Reading, "_begin", lagging)
    monkeypatch.setattr(Reading, "_check_planned", check_planned)
    given = {} if subject is None else {"subject": f"{name}.{subject}"}
    stream = reader(streams, name, **given)
    batches, _ = read_all(stream, stream.initialOffset())
    found = [b"%d" % number for number in range(5)]
    assert column(batches, "data") == (found if subject else [*found, b"0", b"1"])
    assert len(begun) == 2


def test_stream_recreated_after_planning(streams: Streams, name: str) -> None:
    """The rows of the new one are not the old batch's."""
    streams.send(f"{name}.a", range(3))
    planning = reader(streams, name)
    start = planning.initialOffset()
    [part] = planning.partitions(start, planning.latestOffset(start, ALL))
    streams.delete(name)
    streams.make(name)
    streams.send(f"{name}.a", range(7))
    with pytest.raises(Exception, match=f"stream `{name}`: it was re-created"):
        list(reader(streams, name).read(part))
    assert list(reader(streams, name, failOnDataLoss="false").read(part)) == []


def test_header_named_status_is_kept(streams: Streams, name: str) -> None:
    """The server's answers have such a header, too."""
    for number in range(3):
        streams.send(f"{name}.a", [number], Status="404")
    stream = reader(streams, name)
    batches, _ = read_all(stream, stream.initialOffset())
    assert column(batches, "data") == [b"0", b"1", b"2"]


def test_recreated_stream_is_reported(streams: Streams, name: str) -> None:
    """Also when it has grown past the old place since."""
    streams.send(f"{name}.a", range(3))
    stream = reader(streams, name)
    _, end = read_all(stream, stream.initialOffset())
    streams.delete(name)
    with pytest.raises(Exception, match=f"there is no stream `{name}`; create it, or correct"):
        stream.latestOffset(end, ALL)
    streams.make(name)
    streams.send(f"{name}.a", range(7))
    with pytest.raises(Exception, match="re-created"):
        reader(streams, name).latestOffset(end, ALL)
    going_on = reader(streams, name, failOnDataLoss="false")
    batches, entering = read_all(going_on, end)
    assert batches == []
    assert len(column(read_all(going_on, entering)[0], "data")) == 7


# ---- Work queues ---------------------------------------------------------------------------------


def working(streams: Streams, name: str, log: Path, **options: object) -> Any:
    given = {**streams.options, "mode": "queue", "stream": name, "consumer": "spark", **options}
    return running(NatsDataSource, log, schema=SCHEMA, **given)


def numbers_of(run: Run, wanted: int) -> list[int]:
    """From the log, in its order: the column of subjects holds them."""
    found = run.rows_until(lambda rows: len(rows) >= wanted)
    return [int(subject.rpartition(".")[2]) for subject in found]


def send_numbered(streams: Streams, name: str, numbers: Sequence[int]) -> None:
    for number in numbers:
        streams.send(f"{name}.{number}", ["x"])


def test_queue_acknowledges_logged_messages(streams: Streams, tmp_path: Path) -> None:
    name = next(NAMES)
    streams.make(name, queue=True)
    send_numbered(streams, name, range(5))
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 5) == [0, 1, 2, 3, 4]
        offset = run.offset
    assert streams.left(name) == 0
    send_numbered(streams, name, [5])
    with working(streams, name, tmp_path / "log", offset=offset) as run:
        assert numbers_of(run, 1) == [5]


def test_redelivered_messages_are_recognized(streams: Streams, name: str, tmp_path: Path) -> None:
    """The consumer is made anew, so the server sends all that was acknowledged again."""
    send_numbered(streams, name, range(10))
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 10) == list(range(10))
        offset = run.offset
    streams.ask(lambda broker: broker.delete_consumer(name, "spark"))
    send_numbered(streams, name, [10])
    with working(streams, name, tmp_path / "log", offset=offset) as run:
        assert numbers_of(run, 1) == [10]


def test_deleted_consumer_is_created_again(streams: Streams, name: str, tmp_path: Path) -> None:
    with working(streams, name, tmp_path / "log") as run:
        send_numbered(streams, name, range(10))
        assert numbers_of(run, 10) == list(range(10))
        streams.ask(lambda broker: broker.delete_consumer(name, "spark"))
        send_numbered(streams, name, [10])
        assert numbers_of(run, 1) == [10]


PASSES_OVER = "consumer `spark` was re-created: messages that it skips"


@pytest.mark.parametrize(
    ("policy", "retention"), [(DeliverPolicy.NEW, "limits"), (DeliverPolicy.ALL, "interest")]
)
def test_recreated_consumer_that_skips_is_a_warning(
    streams: Streams, tmp_path: Path, caplog: Any, policy: DeliverPolicy, retention: str
) -> None:
    name = next(NAMES)
    subjects = [f"{name}.>"]
    streams.ask(lambda broker: broker.add_stream(name=name, subjects=subjects, retention=retention))
    add_consumer(streams, name, deliver_policy=policy)  # at first, it is somebody's wish
    send_numbered(streams, name, [0])
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 1) == [0]
        offset = run.offset
    assert PASSES_OVER not in caplog.text
    streams.ask(lambda broker: broker.delete_consumer(name, "spark"))
    send_numbered(streams, name, [1])
    add_consumer(streams, name, deliver_policy=policy)
    send_numbered(streams, name, [2])
    for _ in range(2):
        with working(streams, name, tmp_path / "log", offset=offset) as run:
            assert numbers_of(run, 1) == [2]
    found = [text for text in caplog.messages if PASSES_OVER in text]
    assert len(found) == 1
    assert f"(deliver policy `{policy.value}`)" in found[0]
    assert f"(retention `{retention}`)" in found[0]


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
    caplog.set_level(logging.WARNING)
    with working(streams, name, tmp_path / "log", offset=offset) as run:
        assert numbers_of(run, 2) == [7, 8]
    assert f"stream `{name}` was re-created" in caplog.text


def test_queue_needs_one_instance(streams: Streams, name: str, tmp_path: Path) -> None:
    with working(streams, name, tmp_path / "log", parallelism=2) as run:
        assert "option `parallelism` must be 1 with the option `mode` queue, got 2" in run.failure()


def test_consumer_with_a_small_limit(streams: Streams, name: str, tmp_path: Path) -> None:
    add_consumer(streams, name, max_ack_pending=7)
    send_numbered(streams, name, range(20))
    with working(streams, name, tmp_path / "log") as run:
        assert numbers_of(run, 20) == list(range(20))


def test_messages_of_other_readers_are_awaited(streams: Streams, name: str, tmp_path: Path) -> None:
    """The server gives nothing then, and says nothing."""
    add_consumer(streams, name, max_ack_pending=3, ack_wait=4)
    send_numbered(streams, name, range(4))

    async def take_three(broker: Any) -> None:
        pulling = await broker.pull_subscribe_bind("spark", name)
        assert len(await pulling.fetch(3)) == 3

    streams.ask(take_three)
    with working(streams, name, tmp_path / "log", timeoutSeconds=2) as run:
        assert sorted(numbers_of(run, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            {"deliver_subject": "somewhere"},
            "`spark` exists and is a push consumer; expected a pull",
        ),
        ({"ack_policy": AckPolicy.NONE}, "acknowledges by `none`"),
        ({"ack_policy": AckPolicy.ALL}, "acknowledges by `all`"),
        ({"headers_only": True}, "delivers headers only"),
        ({"filter_subject": "{0}.b"}, "has the subjects ['{0}.b']"),
        ({}, "has the subjects [None]"),
    ],
)
def test_consumer_that_would_lose_messages_is_refused(
    streams: Streams, name: str, tmp_path: Path, config: dict[str, Any], text: str
) -> None:
    values = {key: value.format(name) if key == "filter_subject" else value
              for key, value in config.items()}  # fmt: skip
    add_consumer(streams, name, **values)
    with working(streams, name, tmp_path / "log", subject=f"{name}.a") as run:
        assert text.format(name) in run.failure()


def add_consumer(streams: Streams, name: str, **config: Any) -> None:
    """Somebody's own, of the name that the query is given."""
    given = ConsumerConfig(durable_name="spark", **{"ack_policy": AckPolicy.EXPLICIT, **config})
    streams.ask(lambda broker: broker.add_consumer(name, given))


@pytest.mark.parametrize(
    ("retention", "text"),
    [
        ("workqueue", "is a work queue, whose"),
        ("interest", "keeps messages only until its consu"),
    ],
)
def test_work_queue_is_refused_as_stream(streams: Streams, retention: str, text: str) -> None:
    name = next(NAMES)
    streams.ask(lambda broker: broker.add_stream(name=name, retention=retention))
    with pytest.raises(Exception, match=f"stream `{name}` {text}.* option `mode` queue"):
        reader(streams, name).initialOffset()


# ---- Servers that are away, or refuse ------------------------------------------------------------


def test_readers_survive_a_killed_server(tmp_path: Path) -> None:
    """Both modes and the reader of a batch go on; what was acknowledged does not come again."""
    with start_nats(tmp_path / "nats") as server:
        streams = Streams(server.uri)
        streams.make("S")
        send_numbered(streams, "S", range(10))
        stream = reader(streams, "S")
        start = stream.initialOffset()
        with working(streams, "S", tmp_path / "log") as run:
            assert numbers_of(run, 10) == list(range(10))
            for round_ in range(1, 3):
                server.kill()
                server.restart()
                send_numbered(streams, "S", range(10 * round_, 10 * round_ + 10))
                assert numbers_of(run, 10) == list(range(10 * round_, 10 * round_ + 10))
        batches, _ = read_all(stream, start)
        assert len(column(batches, "data")) == 30
        stream.stop()


def test_missing_server_is_a_timeout(tmp_path: Path) -> None:
    nobody = Streams(NOBODY)
    text = "NATS at nats://127.0.0.1:9 does not respond: "
    with pytest.raises(Exception, match=text):
        reader(nobody, "S", timeoutSeconds=1).initialOffset()
    with working(nobody, "S", tmp_path / "log", timeoutSeconds=1) as run:
        assert text in run.failure()


@pytest.mark.parametrize("greeting", [b"", b"INF", b"INFO", b'INFO {"server_id'])
def test_server_that_hangs_up_is_awaited(greeting: bytes) -> None:
    """A load balancer, say, while no server is behind it, or a network that cuts a greeting."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def close_each() -> None:
            with suppress(OSError):
                while True:
                    with door.accept()[0] as caller:
                        caller.sendall(greeting)

        threading.Thread(target=close_each, daemon=True).start()
        closed = Streams(f"nats://127.0.0.1:{door.getsockname()[1]}")
        with pytest.raises(Exception, match=r"TimeoutError: NATS at .* does not respond"):
            reader(closed, "S", timeoutSeconds=1).initialOffset()
        door.shutdown(socket.SHUT_RDWR)


def test_refused_login_ends_at_once(tmp_path: Path) -> None:
    """A password with quotes, blanks and an @ opens the door; it shows in no error."""
    with start_nats(tmp_path, "--user", "spark", "--pass", SECRET) as server:
        streams = Streams(server.uri, user="spark", password=SECRET)
        streams.make("S")
        given = {"user": "spark", "password": SECRET}
        assert reader(streams, "S", **given).initialOffset()
        with pytest.raises(Exception, match=r"PermissionError: NATS at .* refused") as error:
            reader(streams, "S", user="spark", password=f"not {SECRET}").initialOffset()
        assert SECRET not in str(error.value)


DENIED = """authorization { users: [
    {user: admin, password: p},
    {user: noAck, password: p, permissions: {publish: {deny: ["$JS.ACK.>"]}}},
    {user: noPull, password: p, permissions: {publish: {deny: ["$JS.API.CONSUMER.MSG.>"]}}},
    {user: noRows, password: p, permissions: {publish: {deny: ["S.>"]}}}]}"""


def test_missing_permission_is_named(tmp_path: Path) -> None:
    """The server says so, and goes on: without acknowledgements until it sends no more."""
    (tmp_path / "users").write_text(DENIED)
    with start_nats(tmp_path / "nats", "-c", str(tmp_path / "users")) as server:
        streams = Streams(server.uri, user="admin", password="p")
        streams.make("S")
        streams.send("S.a", range(3))
        given = {"url": server.uri, "password": "p", "timeoutSeconds": "1"}
        read = {**given, "user": "noAck", "stream": "S", "mode": "queue", "consumer": "spark"}
        values = Options(FORMAT, READ_QUEUE).parse(read)
        with ExitStack() as ending:
            queue = Queue(SourceContext(0, 1, values))
            ending.callback(queue.destroy)
            queue.fill(cast(Buffer, found := Found()))
            assert len(found.tokens[0]) == 3
            with pytest.raises(PermissionError, match=r'refused: .* publish to "\$js.ack'):
                queue.acknowledge(found.tokens)
        with pytest.raises(Exception, match=r"PermissionError: .*consumer.msg.next"):
            read_all(stream := reader(streams, "S", **given, user="noPull"), stream.initialOffset())
        options = Options(FORMAT, WRITE).parse({**given, "user": "noRows", "subject": "S.b"})
        with (
            closing(Publisher(SinkContext("query", 0, 0, options))) as task,
            pytest.raises(PermissionError, match=r'refused: .* publish to "s.b"'),
        ):
            task.send(pa.RecordBatch.from_pydict({"data": ["x"]}))


class Found:
    """A buffer that takes what a queue adds."""

    def __init__(self) -> None:
        self.tokens = list[Any]()

    def add_batch(self, rows: pa.RecordBatch, token: Any) -> None:
        self.tokens.append(token)


# ---- Writing -------------------------------------------------------------------------------------


def write(spark: SparkSession, rows: str, folder: Path, **options: object) -> str | None:
    """One batch of the rows that SQL expressions make of `value`; the error, if there is one."""
    spark.dataSource.register(NatsDataSource)
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "lines").write_text("1\n2\n2\n")
    lines = spark.readStream.text(str(folder / "in")).selectExpr(*rows.split("; "))
    writer = lines.writeStream.format("nats").trigger(availableNow=True)
    options = {**options, "checkpointLocation": folder / "checkpoint"}
    try:
        query = writer.options(**{key: str(value) for key, value in options.items()}).start()
        query.awaitTermination(60)
    except (PySparkException, ValueError) as error:
        return last_error(error)
    return last_error(query)


def test_all_columns_and_equal_rows_are_written(
    streams: Streams, name: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = f"value AS data; '{name}.a' AS subject; MAP('kind', 'x') AS headers"
    assert write(spark, rows, tmp_path, **streams.options) is None
    found = streams.messages(name)
    assert Counter(message.data for message in found) == Counter([b"1", b"2", b"2"])
    assert {(message.subject, message.headers["kind"]) for message in found} == {(f"{name}.a", "x")}
    assert len({message.headers["Nats-Msg-Id"] for message in found}) == 3


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("1 AS data", "`data` is int, not string or binary: choose and cast with `selectExpr`"),
        (
            "value",
            "`nats` writes the columns data, subject, headers; got `value`: choose and",
        ),
        ("value AS data", "set the option `subject`, or add a column `subject`"),
        ("value AS data; CAST(NULL AS STRING) AS subject", "column `subject` must not be null"),
        ("value AS data; 'nowhere' AS subject", "no stream takes the subject `nowhere`; create on"),
    ],
)
def test_unwritable_rows_are_explained(
    rows: str, text: str, streams: Streams, spark: SparkSession, tmp_path: Path
) -> None:
    assert text in str(write(spark, rows, tmp_path, **streams.options))


def publish(streams: Streams, *subjects: str) -> None:
    """What a task does with rows that say where they go."""
    options = Options(FORMAT, WRITE).parse({**streams.options, "timeoutSeconds": "20"})
    rows = {"subject": list(subjects), "data": pa.nulls(len(subjects), pa.string())}
    with closing(Publisher(SinkContext(f"query {next(NAMES)}", 0, 0, options))) as task:
        task.send(pa.RecordBatch.from_pydict(rows))


def test_only_streams_acknowledge(streams: Streams, name: str) -> None:
    """Whoever listens may answer, before the stream does, or alone."""
    heard = []

    async def serve(broker: Any) -> None:
        async def answer(message: Any) -> None:
            heard.append(message.subject)
            for text in (b"thank you", b'{"stream": "", "seq": 1}', b'{"error": "no"}', b"[1]"):
                await message.respond(text)

        await broker._nc.subscribe("service.>", cb=answer)
        await broker._nc.subscribe(f"{name}.served", cb=answer)
        await broker._nc.flush()
        loop = asyncio.get_running_loop()
        served = [f"{name}.a", f"{name}.served"] * 50
        await loop.run_in_executor(None, publish, streams, *served)
        with pytest.raises(RuntimeError, match=r"takes the subject `service.x`; create"):
            await loop.run_in_executor(None, publish, streams, f"{name}.b", "service.x")

    streams.ask(serve)
    assert heard.count(f"{name}.served") == 50 and "service.x" in heard
    assert Counter(message.subject for message in streams.messages(name)) == {
        f"{name}.a": 50,
        f"{name}.served": 50,
        f"{name}.b": 1,
    }


def test_subjects_of_the_server_are_refused(streams: Streams, name: str) -> None:
    streams.send(f"{name}.a", ["kept"])
    for subject in (f"$JS.API.STREAM.DELETE.{name}", "$SYS.REQ.SERVER.PING"):
        with pytest.raises(ValueError, match="is for requests to the server, not for messages"):
            publish(streams, subject)
    assert streams.left(name) == 1


# Most of them can be sent.
HEADER_NAMES = st.text("abXY01!#$%&'*+-.^_`|~", min_size=1, max_size=4) | st.sampled_from("é :")
HEADER_VALUES = st.text("ab é,:", max_size=4) | TEXTS
HEADERS = st.none() | st.dictionaries(HEADER_NAMES, HEADER_VALUES, max_size=1)
MESSAGES = st.lists(st.tuples(st.none() | st.binary(max_size=9), HEADERS), max_size=4)


@few_or_many("examples", 40, 1_000)
def test_messages_round_trip(streams: Streams, name: str, examples: int) -> None:
    """Or a header that cannot be sent is an error with the column's name, and nothing is sent."""
    options = Options(FORMAT, WRITE).parse({**streams.options, "subject": f"{name}.a"})
    kept, place = reader(streams, name), 0
    numbers, kind = count(), pa.map_(pa.string(), pa.string())

    def check(rows: list[tuple[bytes | None, dict[str, str] | None]]) -> None:
        nonlocal place
        data, headers = [row[0] for row in rows], [row[1] for row in rows]
        pairs = [found and list(found.items()) for found in headers]
        columns = {"data": pa.array(data, pa.binary()), "headers": pa.array(pairs, kind)}
        with closing(Publisher(SinkContext("query", next(numbers), 0, options))) as task:
            try:
                task.send(pa.RecordBatch.from_pydict(columns))
            except ValueError as error:
                assert "column `headers` cannot hold" in str(error)
                return
        start = kept.initialOffset() if place == 0 else place
        batches, place = read_all(kept, start)
        found = [row for each in batches for row in each.to_pylist()]
        assert [row["data"] for row in found] == [each or b"" for each in data]
        for row, wanted in zip(found, headers, strict=True):
            back = dict(row["headers"])
            assert ("Nats-Msg-Id" in back) and {
                key: value for key, value in back.items() if key != "Nats-Msg-Id"
            } == (wanted or {})

    holds(check, examples, MESSAGES)
    kept.stop()


@pytest.mark.parametrize("ending", ["", "a..b", "a."])
def test_empty_part_of_a_subject_is_refused(streams: Streams, name: str, ending: str) -> None:
    with pytest.raises(ValueError, match=f"subject `{name}.{ending}` has an empty part"):
        publish(streams, f"{name}.{ending}")


@pytest.mark.parametrize("blank", ["\v", "\f"])
def test_blank_in_a_subject_is_refused(streams: Streams, name: str, blank: str) -> None:
    """To the client's parser it is two words."""
    with pytest.raises(ValueError, match="has a blank that readers cannot parse"):
        publish(streams, f"{name}.a{blank}b")


def test_stream_without_acks_is_refused(streams: Streams, monkeypatch: Any) -> None:
    monkeypatch.setattr(publishing, "SILENT_SECONDS", 0.1)
    name = next(NAMES)
    streams.make(name, no_ack=True)
    with pytest.raises(RuntimeError, match=f"`{name}` takes the subject `{name}.a` without ack"):
        publish(streams, f"{name}.a")


def test_secret_is_nowhere_visible(
    streams: Streams, name: str, spark: SparkSession, tmp_path: Path
) -> None:
    streams.send(f"{name}.a", ["1"])
    spark.dataSource.register(NatsDataSource)
    options = {**streams.options, "stream": name, "user": "me", "password": SECRET}
    assert sightings(spark, "nats", options, tmp_path) == []
