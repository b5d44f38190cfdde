"""The format `kafka_py`: schema and columns of Spark's own Kafka source and sink."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import LIMIT, PARALLELISM, Format, Options, documented
from tutorial_pkg.connectors.kafka.options import CUT, FORMAT, MOST, READ


@documented(Options(FORMAT, (replace(LIMIT, name=MOST), replace(PARALLELISM, name=CUT), *READ)))
class KafkaDataSource(Format):
    """Topics of Kafka, and of servers that speak its protocol, as a source and as a sink.

    Schema, columns and the options below are those of Spark's format `kafka`, but this one needs no
    jar: `pip install 'tutorial_pkg[kafka]'`. Guarantees, limits and examples:
    docs/formats/kafka_py.md.

    Reading, with `spark.readStream` or `spark.read`:

    Parallelism: one task per partition with new records; `minPartitions` splits large ones.
    Replay: any batch whose records the brokers still have.
    Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
        sink. If records are gone before they were read, the query ends, or logs a warning with
        `failOnDataLoss` false.

    Writing, with `writeStream` in the output mode append:

    Parallelism: a producer in each task.
    Guarantee: at least once, as with Spark's own sink.

    Options for reading; one of `subscribe` and `subscribePattern` is required:

    {options}

    These options of Spark's format are missing, and refused: `assign`, `startingTimestamp`,
    `startingOffsetsByTimestamp`, `startingOffsetsByTimestampStrategy`, `endingTimestamp`,
    `endingOffsetsByTimestamp`, `minOffsetsPerTrigger`, `maxTriggerDelay`, `maxRecordsPerPartition`,
    `groupIdPrefix`, `fetchOffset.numRetries` and `fetchOffset.retryIntervalMs`.

    Options for writing: `kafka.*`, and `topic` unless there is a column `topic`.

    Schema: key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP,
    timestampType INT; with `includeHeaders` headers ARRAY<STRUCT<key: STRING, value: BINARY>>.
    Keys and values are bytes, so there are no bad records to set aside: decode them in the query.

    Errors: `ImportError` without the client; `ValueError` for an option or a column;
    `PermissionError` when brokers refuse; `TimeoutError` when they do not respond;
    `LookupError` for topics and records that do not exist; `RuntimeError` for records that cannot
    be read or were not written.

    After Spark's own source and sink, and Hazelcast Jet's `KafkaSources` and `KafkaSinks`.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[kafka]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.kafka.source import source

        return source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.kafka.sink import sink

        return sink
