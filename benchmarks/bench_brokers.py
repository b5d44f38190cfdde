"""How fast `kafka_py` and `nats` read and write beside their bare clients, in as many processes.

    python benchmarks/bench_brokers.py [--lines 400000] [--rounds 3] [--conf key=value ...]

Real servers on this machine's loopback, with the other programs on the same cores: Tansu, which
speaks Kafka's protocol (see `start_kafka` for how its ends are told), and NATS. The bare client is
a Python process for each of two partitions, or each half of a stream, that are up and connected
before the clock starts; it takes the bytes of each record, or hands them over and waits until the
server has them all. Spark reads with as many tasks into `noop`, and writes one micro-batch of rows
that its `rate-micro-batch` makes.

NATS gets a fifth of the lines: its Python client takes some ten times as long for each.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import nats
from batches import seconds_of_a_batch
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from lines import LINE
from measure import Result, Watch, finish, in_turns, parse, series_of, timed
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir
from workbook.services import start_kafka, start_nats

PROCESSES = 2
FETCHED, PUBLISHED = 5_000, 2_000
NATS_SHARE = 5
WARM_UP_ROUNDS = 1
ROW = "concat('1583309377078,0.502024,SimpleEvent(timestamp=10:09:37.000, sequence=', value, ')')"
NAMES = (f"T{number}" for number in count())

Work = Callable[[str, str, int, int, Any], None]  # address, name, index, rows, barrier

# ---- Bare clients, each in a process of its own --------------------------------------------------


def consume(address: str, topic: str, index: int, rows: int, together: Any) -> None:
    settings = {"bootstrap.servers": address, "group.id": "bare", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.list_topics(topic, timeout=10)
        together.wait()
        consumer.assign([TopicPartition(topic, index, 0)])
        size, read = 0, 0
        while read < rows:
            found = consumer.consume(FETCHED, timeout=0.1)
            size += sum(len(record.value()) for record in found)
            read += len(found)


def produce(address: str, topic: str, index: int, rows: int, together: Any) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    producer.list_topics(topic, timeout=10)
    together.wait()
    for number in range(rows):
        while True:
            try:
                producer.produce(topic, LINE % number, partition=index)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def fetch(address: str, stream: str, index: int, rows: int, together: Any) -> None:
    asyncio.run(_fetch(address, stream, index, rows, together))


async def _fetch(address: str, stream: str, index: int, rows: int, together: Any) -> None:
    client = await nats.connect(address)
    together.wait()
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=1 + index * rows,
        ack_policy=AckPolicy.NONE,
    )
    pulling = await client.jetstream().pull_subscribe("", None, stream, config)
    size, read = 0, 0
    while read < rows:
        found = await pulling.fetch(min(FETCHED, rows - read))
        size += sum(len(message.data) for message in found)
        read += len(found)
    await client.close()


def publish(address: str, stream: str, index: int, rows: int, together: Any) -> None:
    asyncio.run(_publish(address, stream, rows, together))


async def _publish(address: str, stream: str, rows: int, together: Any) -> None:
    client = await nats.connect(address)
    broker = client.jetstream()
    together.wait()
    for begin in range(0, rows, PUBLISHED):
        numbers = range(begin, min(rows, begin + PUBLISHED))
        answers = [await broker.publish_async(f"{stream}.x", LINE % n) for n in numbers]
        await asyncio.gather(*answers)
    await client.close()


def bare(work: Work, address: str, name: str, rows: int) -> float:
    """Seconds from when all processes are ready until the last one has done its part."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(PROCESSES + 1)
    share = rows // PROCESSES
    processes = [
        context.Process(target=work, args=(address, name, index, share, together))
        for index in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    together.wait()
    started = time.perf_counter()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    return time.perf_counter() - started


# ---- Spark ---------------------------------------------------------------------------------------


def read(spark: SparkSession, name: str, options: dict[str, Any]) -> float:
    rows = spark.read.format(name).options(**options).load()
    return timed(lambda: rows.write.format("noop").mode("overwrite").save())


def write(spark: SparkSession, name: str, rows: int, column: str, options: dict[str, Any]) -> float:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    lines = source.option("numPartitions", PROCESSES).load().selectExpr(f"{ROW} AS {column}")
    return seconds_of_a_batch(lines.writeStream.format(name), **options)


# ---- Contestants ---------------------------------------------------------------------------------


def kafka_runs(spark: SparkSession, address: str, rows: int) -> dict[str, dict[str, Any]]:
    """By group and contestant."""
    admin = AdminClient({"bootstrap.servers": address})

    def topic() -> str:
        name = next(NAMES)
        [made] = admin.create_topics([NewTopic(name, PROCESSES, 1)]).values()
        made.result(20)
        return name

    filled = topic()
    bare(produce, address, filled, rows)
    bare(produce, address, filled, PROCESSES)  # alone, so that the broker tells the end behind them
    servers = {"kafka.bootstrap.servers": address}
    reading = spark.read.format("kafka_py").options(**servers, subscribe=filled)
    assert reading.load().count() == rows + PROCESSES
    return {
        "Kafka's protocol, reading": {
            "confluent-kafka alone": lambda: bare(consume, address, filled, rows),
            "kafka_py": lambda: read(spark, "kafka_py", {**servers, "subscribe": filled}),
        },
        "Kafka's protocol, writing": {
            "confluent-kafka alone": lambda: bare(produce, address, topic(), rows),
            "kafka_py": lambda: write(
                spark, "kafka_py", rows, "value", {**servers, "topic": topic()}
            ),
        },
    }


def nats_runs(spark: SparkSession, address: str, rows: int) -> dict[str, dict[str, Any]]:
    def stream() -> str:
        name = next(NAMES)
        asyncio.run(_make_stream(address, name))
        return name

    filled = stream()
    bare(publish, address, filled, rows)
    options = {"url": address, "stream": filled, "parallelism": PROCESSES}
    return {
        "NATS, reading": {
            "nats-py alone": lambda: bare(fetch, address, filled, rows),
            "nats": lambda: read(spark, "nats", options),
        },
        "NATS, writing": {
            "nats-py alone": lambda: bare(publish, address, stream(), rows),
            "nats": lambda: write(
                spark, "nats", rows, "data", {"url": address, "subject": f"{stream()}.x"}
            ),
        },
    }


async def _make_stream(address: str, name: str) -> None:
    client = await nats.connect(address)
    await client.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
    await client.close()


def main() -> None:
    given = parse(__doc__, lines=400_000)
    series = []
    few = given.lines // NATS_SHARE
    with Watch("brokers") as watch, tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        spark = start_spark("bench_brokers", cores=PROCESSES, **given.conf)
        for start, runs_of, rows in (
            (start_kafka, kafka_runs, given.lines),
            (start_nats, nats_runs, few),
        ):
            with start(Path(folder) / start.__name__) as server:
                for group, runs in runs_of(spark, server.uri, rows).items():
                    seconds = in_turns(runs, given.rounds, WARM_UP_ROUNDS)
                    series += series_of(group, rows, seconds, base=next(iter(runs)))
        spark.stop()
    finish(given, Result("Brokers: `kafka_py` and `nats` beside their bare clients", series), watch)


if __name__ == "__main__":
    main()
