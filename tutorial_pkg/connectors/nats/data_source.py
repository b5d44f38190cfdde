"""The format `nats`: JetStream streams, work queues and subjects."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import LIMIT, PARALLELISM, Format, Options, documented
from tutorial_pkg.connectors.nats.options import FORMAT, QUEUE, READ_STREAM, STREAM


@documented(Options(FORMAT, (LIMIT, PARALLELISM, *READ_STREAM)))
class NatsDataSource(Format):
    """Messages that NATS JetStream keeps, as a source and as a sink.

    Install the client with `pip install 'tutorial_pkg[nats]'`. Limits and examples are in
    docs/formats/nats.md.

    Mode `stream` (a topic: any number of queries read it), with `readStream` or `spark.read`:

    Parallelism: `parallelism` tasks, each with a range of sequence numbers.
    Replay: any batch, as long as the stream has its messages.
    Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
        sink. If messages are gone before they were read, the query ends, or logs a warning with
        `failOnDataLoss` false.

    Mode `queue` (each message goes to one reader), with `readStream…load(path)`:

    Parallelism: one connection, in the driver; tasks read slices of the log in `path`.
    Replay: any uncommitted batch, from the log.
    Guarantee: exactly once, if no other reader uses this `consumer`. Messages are acknowledged when
        their rows are on disk.

    Writing, with `writeStream` in the output mode append:

    Parallelism: a connection in each task.
    Guarantee: at least once; exactly once within the stream's duplicate window, since each message
        has an id made of query, batch, partition and values.

    Options for the mode `stream`:

    {options}

    The mode `queue` has `consumer` and `path` instead of `startingSequence` and `failOnDataLoss`.
    Writing takes the options to connect, and `subject` unless there is a column `subject`.

    Schema: subject STRING, data BINARY, sequence LONG, timestamp TIMESTAMP, headers MAP<STRING,
    STRING>. Columns for writing: data STRING or BINARY, and optionally subject and headers.

    Errors: `ImportError` without the client; `ValueError` for an option or a column;
    `PermissionError` when the server refuses; `TimeoutError` when it does not respond within
    `timeoutSeconds`; `LookupError` for a stream or messages that do not exist; `RuntimeError` for a
    subject that no stream takes.

    After Hazelcast Jet's `jmsTopic` and `jmsQueue`; ids: JetStream.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[nats]'"

    def source(self) -> type[DataSource]:
        """Return the source of the option `mode`; either one reports a wrong value."""
        from tutorial_pkg.connectors.nats import queue, stream

        is_queue = self.options.get("mode", STREAM).lower() == QUEUE
        return queue.source if is_queue else stream.source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.nats.sink import sink

        return sink
