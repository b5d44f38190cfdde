"""The format `kafka_py`: options, schema and columns of Spark's own Kafka source and sink."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder import (
    SinkBuilder,
    SourceBuilder,
    SplitContext,
    boolean,
    integer,
    not_empty,
    secret,
)
from tutorial_pkg.builder.context import Position
from tutorial_pkg.connectors.kafka.client import check_hidden, user_settings
from tutorial_pkg.connectors.kafka.cluster import Cluster
from tutorial_pkg.connectors.kafka.partitions import (
    EARLIEST,
    LATEST,
    Partition,
    Range,
    assignment,
    check_wanted,
    ending,
    names,
    offset_at,
    pattern,
    starting,
)
from tutorial_pkg.connectors.kafka.records import lost_text, records
from tutorial_pkg.connectors.kafka.sink import Sender, check_rows
from tutorial_pkg.core.options import OptionValues, documented

FORMAT = "kafka_py"
SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, "
    "timestampType INT"
)
HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"

_log = logging.getLogger(__name__)

# ---- The source's functions: the driver asks for places, tasks read what is between two ----------


def splits(context: SplitContext) -> dict[str, Position]:
    """The partitions that there are, each with the offset to begin at.

    One that appears while the query runs is read from its beginning.
    """
    options, cluster = context.options, context.connection
    if options.endingOffsets and not context.batch:
        raise ValueError("option `endingOffsets` is for `spark.read`: a stream has no end")
    found: dict[Partition, Range] = cluster.look()
    if context.offset is not None:
        _check_vanished(cluster, options, [Partition.parse(split) for split in context.offset])
        return {str(each): held.first for each, held in found.items()}
    place = options.startingOffsets or (EARLIEST if context.batch else LATEST)
    return {
        str(each): offset_at(place, each, held, "startingOffsets") for each, held in found.items()
    }


def latest(context: SplitContext, split: str, start: int) -> int:
    """How far a partition goes, as `splits` has just seen it."""
    options, partition = context.options, Partition.parse(split)
    held: Range = context.connection.ranges[partition]
    if start < held.first:
        _lose(context.connection, options, partition, start, f"it begins at {held.first} now")
    if start > held.end:
        _lose(context.connection, options, partition, start, f"it ends at {held.end} now")
    if context.batch:
        return offset_at(options.endingOffsets or LATEST, partition, held, "endingOffsets")
    return held.end


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """A task's records."""
    return records(context.options, Partition.parse(split), start, end)


def _check_vanished(cluster: Cluster, options: OptionValues, known: list[Partition]) -> None:
    """A topic that was made again under its old name has another id."""
    names_now = {each.name for each in cluster.ranges}
    for partition in known:
        if partition not in cluster.ranges:
            again = "its topic was deleted and made again"
            what = again if partition.name in names_now else "it is not there any more"
            _lose(cluster, options, partition, None, what)


def _lose(
    cluster: Cluster, options: OptionValues, partition: Partition, offset: int | None, what: str
) -> None:
    """Records are gone: raise `LookupError`, or warn, once."""
    text = lost_text(partition, offset, what)
    if options.failOnDataLoss:
        raise LookupError(text)
    if text not in cluster.warned:
        cluster.warned.add(text)
        _log.warning("format `%s`: %s", FORMAT, text)


# ---- Options -------------------------------------------------------------------------------------


def _source() -> Any:
    return (
        SourceBuilder.replayable(FORMAT, SCHEMA, splits, latest, read)
        .connect(Cluster)
        .close(Cluster.close)
        .limit("maxOffsetsPerTrigger")
        .distributed(1, "minPartitions")
        .option("kafka.*", secret, None, "for the client, librdkafka: `kafka.bootstrap.servers`")
        .option("subscribe", names, None, "topics to read")
        .option("subscribePattern", pattern, None, "read all topics of such a name")
        .option("assign", assignment, None, "partitions to read")
        .option(
            "startingOffsets",
            starting,
            None,
            "where a new query begins: by default `latest`, and `earliest` in `spark.read`",
        )
        .option("endingOffsets", ending, None, "in `spark.read` only: where it ends; `latest`")
        .option("includeHeaders", boolean, False, "add the column `headers`")
        .option(
            "failOnDataLoss",
            boolean,
            True,
            "whether the query ends when records are gone that it has not read, or warns",
        )
        .option(
            "kafkaConsumer.pollTimeoutMs",
            integer(1),
            120_000,
            "milliseconds to wait for brokers that do not answer",
        )
        .build()
    )


def _sink() -> Any:
    return (
        SinkBuilder.stream(FORMAT, create=Sender)
        .receive_batch(Sender.send)
        .flush(Sender.flush)
        .destroy(Sender.close)
        .option("kafka.*", secret, None, "for the client, librdkafka: `kafka.bootstrap.servers`")
        .option("topic", not_empty, None, "where all rows go; else the column `topic` says it")
        .build()
    )


_SOURCE, _SINK = _source(), _sink()

# ---- The data source -----------------------------------------------------------------------------


@documented(_SOURCE.parts.options)
class KafkaDataSource(DataSource):
    """Topics of Kafka, and of whatever speaks its protocol, as a source and as a sink.

    Options, schema and columns are those of Spark's own format `kafka`, so code moves from one to
    the other by changing the format's name. This one is Python: no jar on the cluster, only
    `pip install 'tutorial_pkg[kafka]'`.

    Reading, with `spark.readStream` or `spark.read`:

    Parallelism: a task for each partition that has new records; with `minPartitions` large ones are
        cut, so that more tasks read.
    Replay: any batch whose records the brokers still have. A compacted topic forgets records that
        a later one of the same key replaces, so there a batch read again may have fewer.
    Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
        sink. Offsets are in Spark's checkpoint; none is committed to Kafka. New partitions are read
        from their beginning. Where records are gone before they were read (deleted by age or size,
        partition or topic deleted, or made again: it has another id then), the query ends, or with
        `failOnDataLoss` false warns in Spark's log, and goes on with what there is.

    Options for reading; one of `subscribe`, `subscribePattern` and `assign` is required:
    {options}

    Schema: key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP,
    timestampType INT (0 when the record was made, 1 when the broker had it, -1 none); with
    `includeHeaders` headers ARRAY<STRUCT<key: STRING, value: BINARY>>, null where there is none.

    Writing, with `writeStream` in the output modes append and update:

    Parallelism: a producer in each task.
    Guarantee: at least once, as Spark's own. A batch is done when all brokers in sync have its
        records (`acks` all). What is repeated after a failure comes again: have readers drop what
        they know, by a number in the record. `kafka.enable.idempotence` true keeps the order of a
        partition when the client tries again, and costs half a second a task.

    Columns: value STRING or BINARY; if they are there, key STRING or BINARY, topic STRING,
    partition INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>. Where the partition is null,
    the key chooses it, as with Java's clients.

    Options for writing: `topic` (where all rows go; else the column `topic` says it) and `kafka.*`.

    Options `kafka.*` go through to librdkafka, which calls a few of them otherwise than Java's
    client: `kafka.security.protocol`, `kafka.sasl.mechanism`, `kafka.sasl.username`,
    `kafka.sasl.password`, `kafka.ssl.ca.location`. A secret is best not in the program:
    `${env:KAFKA_PASSWORD}`; what Spark does not hide in its plans (`kafka.ssl.key.pem`,
    `kafka.sasl.jaas.config`) is taken in this way only.

    Errors: `ImportError` without the client; `ValueError` for an option or a column;
    `PermissionError` when the brokers refuse; `TimeoutError` when they are away for longer than
    `kafkaConsumer.pollTimeoutMs`, in writing `kafka.delivery.timeout.ms` (120000 milliseconds);
    `LookupError` for topics and records that are not there; `RuntimeError` with the name of a topic
    that did not take all records.

    After Spark's own source and sink, and Hazelcast Jet's `KafkaSources` and `KafkaSinks`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        check_hidden(self.options)
        options = _SOURCE.parts.options.parse(self.options)
        check_wanted(options)
        return SCHEMA + HEADERS if options.includeHeaders else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        made: DataSourceReader = _SOURCE(self.options).reader(schema)
        return made

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        made: DataSourceStreamReader = _SOURCE(self.options).streamReader(schema)
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        check_hidden(self.options)
        made: DataSourceStreamWriter = _SINK(self.options).streamWriter(schema, overwrite)
        options = _SINK.parts.options.parse(self.options)
        user_settings(options)
        check_rows(schema, options.topic)
        return made
