"""The format `kafka_py`: options, schema and columns of Spark's own Kafka source and sink."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import LIMIT, PARALLELISM, Format, Options, documented
from tutorial_pkg.connectors.kafka.options import CUT, FORMAT, MOST, READ


@documented(Options(FORMAT, (replace(LIMIT, name=MOST), replace(PARALLELISM, name=CUT), *READ)))
class KafkaDataSource(Format):
    """Topics of Kafka, and of whatever speaks its protocol, as a source and as a sink.

    Options, schema and columns are those of Spark's own format `kafka`, so code moves from one to
    the other by changing the format's name. (A query needs a new checkpoint then: neither reads
    the other's.) This one is Python: no jar on the cluster, only `pip install
    'tutorial_pkg[kafka]'`.

    Reading, with `spark.readStream` or `spark.read`:

    Parallelism: a task for each partition that has new records; with `minPartitions` large ones are
        cut, so that more tasks read.
    Replay: any batch whose records the brokers still have. A compacted topic forgets records that
        a later one of the same key replaces, so there a batch read again may have fewer.
    Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
        sink. Offsets are in Spark's checkpoint; none is committed to Kafka. New partitions are read
        from their beginning. If records are gone before they were read (deleted by age or size,
        partition or topic deleted, or topic re-created, which gives it a new id), the query ends;
        with `failOnDataLoss` false it warns in Spark's log and goes on with what is left. The query
        does not notice when a partition has lost its last records (an unclean election of its
        leader) and has used their offsets again before the query looks. Where brokers give topics
        no ids (Kafka before 2.8, some that only speak its protocol), it does not notice either when
        a topic was re-created and has grown past the query's offsets. When they begin to give ids,
        all topics count as re-created: start with a new checkpoint, and the old one's offsets as
        `startingOffsets`.

    Reading needs one of `subscribe`, `subscribePattern` and `assign`.

    Options:
    {options}
    Records of aborted and open transactions are read, too, unless `kafka.isolation.level` is
    `read_committed`.
    `maxOffsetsPerTrigger` counts offsets, as Spark's own does: with transaction markers, or in a
    compacted topic, a batch may have fewer rows.

    Schema: key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP,
    timestampType INT (0 when the record was made, 1 when the broker had it, -1 none); with
    `includeHeaders` headers ARRAY<STRUCT<key: STRING, value: BINARY>>, null where there is none. If
    a header's key contains a NUL, the client hands over only what is before it.

    Writing, with `writeStream` in the output mode append:

    Parallelism: a producer in each task.
    Guarantee: at least once, as Spark's own. A batch is done when all brokers in sync have its
        records, unless `kafka.acks` says less; with 0, some may be lost without an error. They may
        come again after a failure: number them, so that readers can drop what they already have.
        `kafka.enable.idempotence` true keeps the order of a partition when the client tries again,
        and costs half a second a task.

    Columns: value STRING or BINARY; if they are there, key STRING or BINARY, topic STRING,
    partition INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>. Where the partition is null,
    the key chooses it, as with Java's clients.

    Options for writing: `topic` (where all rows go; otherwise the column `topic` says where) and
    `kafka.*`.

    Options `kafka.*` are passed to librdkafka, which has other names for a few of them than Java's
    client: `kafka.security.protocol`, `kafka.sasl.mechanism`, `kafka.sasl.username`,
    `kafka.sasl.password`, `kafka.ssl.ca.location`. Keep secrets out of the program:
    `${env:KAFKA_PASSWORD}` is an environment variable of the process that connects, the driver or a
    worker. What Spark does not hide in its plans (`kafka.ssl.key.pem`, `kafka.sasl.jaas.config`) is
    accepted only in this form.

    Errors: `ImportError` without the client; `ValueError` for an option or a column;
    `PermissionError` when the brokers refuse; `TimeoutError` when they are unavailable for longer
    than `kafkaConsumer.pollTimeoutMs` or, in writing, `kafka.delivery.timeout.ms` (120000
    milliseconds); `LookupError` for topics and records that are not there; `RuntimeError` for
    records that the client cannot read, and with the name of a topic that did not take all records.

    After Spark's own source and sink, and Hazelcast Jet's `KafkaSources` and `KafkaSinks`.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[kafka]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.kafka.source import source

        return source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.kafka.sink import sink

        return sink
