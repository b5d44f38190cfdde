"""The format `nats`: JetStream streams, work queues and subjects."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import LIMIT, PARALLELISM, Format, Options, documented
from tutorial_pkg.connectors.nats.options import FORMAT, QUEUE, READ_STREAM, STREAM


@documented(Options(FORMAT, (LIMIT, PARALLELISM, *READ_STREAM)))
class NatsDataSource(Format):
    """Messages that NATS JetStream keeps, as a source and as a sink: `pip install
    'tutorial_pkg[nats]'`.

    Reading in the mode `stream` (a topic: any number of queries read it, each from where it wants),
    with `spark.readStream` or `spark.read`:

    Parallelism: `parallelism` tasks, each a range of sequence numbers.
    Replay: any batch whose messages the stream still has.
    Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
        sink. If messages are gone before they were read (deleted by age or size, stream deleted, or
        re-created), the query ends; with `failOnDataLoss` false it warns in Spark's log and goes on
        with what is left. A message that was deleted in the middle, or replaced by a newer one (a
        key-value bucket), is not noticed: it looks like one of another subject. Nor is it noticed
        when a server has lost its last messages in a crash and has used all of their numbers again
        before the query looks. In a cluster, where servers lag behind, a task asks the stream's
        leader whether it has all: its login must be allowed to (`$JS.API.STREAM.MSG.GET`).

    Options:
    {options}

    `maxRowsPerTrigger` counts sequence numbers: with `subject` the messages of other subjects, too,
    and those that were deleted. So a batch may have fewer rows.

    Reading in the mode `queue` (each message goes to one reader), with `spark.readStream` and a
    folder: `.load(path)`:

    Parallelism: one connection, in the driver; tasks read slices of the log in `path`.
    Replay: any batch that Spark has not committed, from the log.
    Guarantee: exactly once, with a checkpoint and an idempotent or transactional sink, as long as
        nobody else reads with this `consumer`. A message is acknowledged when its row is on disk;
        one that comes again, after a crash on either side, is known by its sequence number.

    A consumer of your own must be a pull consumer with explicit acknowledgements, whole messages
    and `subject` as its only subject. Messages that it gives up after `max_deliver`, or leaves out
    when somebody alters it, are not read. Spark's log has a warning when the consumer was
    re-created and so misses messages (a `deliver_policy` other than `all`, or a stream with the
    retention `interest`). It also has one when the stream was re-created; the stream is then read
    from its beginning.
    Messages that the stream deletes before they were read (by age, number or size, or purged) are
    missing without an error or a warning; the mode `stream` has an error for that.
    All messages up to a consumer's `ack_floor` count as read. So if the first consumer did not
    begin with the first message, the older ones are not read, not even when it is made again or has
    another name: for them, start anew, with a new log, checkpoint and `consumer`.

    Options as above, and `consumer` (required; the name of the durable consumer, which is made if
    there is none), `path`, `maxBacklogBytes`, `maxBytesPerTrigger`, `maxRowsPerTrigger` as in
    `SourceBuilder.stream`; not `startingSequence`, `failOnDataLoss`. With the trigger
    `availableNow` only the log is read.

    Schema: subject STRING, data BINARY, sequence LONG, timestamp TIMESTAMP (when the server had
    it), headers MAP<STRING, STRING>, null where there are none. If a message has a header twice,
    the last value counts: the client hands over no other. It also cuts blanks off a value, replaces
    bytes that are not UTF-8 by U+FFFD (in a subject, too), and leaves out a header whose name is
    not ASCII or has a blank in it.
    A query that starts again with another `subject` goes on where it was: what came before is not
    read.

    Writing, with `writeStream` in the output mode append:

    Parallelism: a connection in each task.
    Guarantee: at least once; exactly once, while the stream's duplicate window (two minutes, unless
        it was made with another) is longer than the time from the first try of a batch to its
        repetition: each message has an id made of query, batch, partition and the row's values, and
        the stream drops messages whose ids it has. A row that is repeated in another partition, or
        with other values, has another id. So use a query whose rows come to the same partitions
        again, without `uuid()` or `rand()`, for which Spark has new values in a repeated batch. A
        query with a copy of the checkpoint must not write to the same stream: equal rows of the two
        count as repetitions. A restarted server knows the ids of the messages that it holds. What
        it had removed by then (from a work queue, beyond a limit, rolled up) comes again if its
        batch is repeated after the restart. Where a stream keeps one message for each subject, an
        older row then takes a newer one's place. A mirror, or a stream with sources, that takes
        over another one's subjects does not know the ids of what it has copied until its server is
        restarted: a repeated batch is there twice.

    A server acknowledges messages before they are on its disk, which it syncs every two minutes
    unless its `sync_interval` is `always`: a power failure may take rows of batches that are done,
    as any restart does if the stream has the storage `memory`.
    Only a stream's own acknowledgement counts. A service that listens to the subject hears the
    message, too, and its answer is ignored. Where two streams take a subject, one on a leaf node
    and one on its hub, the first to acknowledge is enough: the other may not have the message.
    Subjects of the server (`$JS.`, `$SYS.`) are refused. A stream with the retention `interest`
    acknowledges what no consumer wants, and does not keep it.
    Headers that tell a stream what to do are obeyed if it allows them: `Nats-Rollup` deletes what
    it has, `Nats-TTL` this message after a while, `Nats-Schedule` older ones of its subject.

    Columns: data STRING or BINARY; if they are there, subject STRING, headers MAP<STRING, STRING>,
    in which `Nats-Msg-Id` takes the place of the id. A null in `data` is a message without bytes,
    and a null in `headers` is an empty text.
    Headers of a message that was read may bring its id along: a row that has them is dropped
    without an error, as a repetition, if it goes to the same stream within the duplicate window,
    or if another row made from that message came before. So take the id out first:
    `map_filter(col("headers"), lambda name, value: name != "Nats-Msg-Id")`.

    Options for writing: `subject` (where all rows go; otherwise the column `subject` says where),
    and those to connect: `url`, `user`, `password`, `token`, `credentials`, `caFile`,
    `timeoutSeconds`.

    Keep secrets out of the program: `${env:NATS_PASSWORD}` is an environment variable of the
    process that connects, the driver or a worker.

    Errors: `ImportError` without the client; `ValueError` for an option or a column;
    `PermissionError` when the server refuses; `TimeoutError` when it is unavailable for longer than
    `timeoutSeconds`; `LookupError` for a stream or messages that are not there; `RuntimeError` that
    names a subject that no stream takes, or one that never acknowledges.

    After Hazelcast Jet's `jmsTopic` and `jmsQueue`; dropping repetitions by id: JetStream.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[nats]'"

    def source(self) -> type[DataSource]:
        """That of the option `mode`; either one reports a wrong value."""
        from tutorial_pkg.connectors.nats import queue, stream

        is_queue = self.options.get("mode", STREAM).lower() == QUEUE
        return queue.source if is_queue else stream.source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.nats.sink import sink

        return sink
