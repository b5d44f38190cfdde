"""The format `nats`: JetStream streams, work queues and subjects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder import (
    REQUIRED,
    SinkBuilder,
    SourceBuilder,
    boolean,
    choice,
    integer,
    not_empty,
    secret,
)
from tutorial_pkg.builder.declaration import Declaration
from tutorial_pkg.connectors.nats.messages import SCHEMA
from tutorial_pkg.connectors.nats.queue import Queue
from tutorial_pkg.connectors.nats.sink import Publisher, check_rows
from tutorial_pkg.connectors.nats.stream import EARLIEST, Stream, latest, read, splits, starting
from tutorial_pkg.core.options import documented, taking

FORMAT = "nats"
STREAM, QUEUE = "stream", "queue"

# ---- Options -------------------------------------------------------------------------------------


@taking("an existing file")
def file(text: str) -> str:
    """A parser for files that the client reads."""
    if not Path(text).is_file():
        raise ValueError
    return text


def _connecting(builder: Declaration) -> None:
    """What all three need to reach a server. `url` is a name that Spark hides in plans."""
    builder.option("url", secret, REQUIRED, "`nats://host:port`, several with commas between them")
    builder.option("user", secret, None, "to log in")
    builder.option("password", secret, None, "to log in")
    builder.option("token", secret, None, "to log in, instead of user and password")
    builder.option("credentials", file, None, "to log in: a file with a JWT and its key")
    builder.option("caFile", file, None, "whom to trust, for `tls://host:port`")
    builder.option("timeoutSeconds", integer(1), 60, "seconds to wait for a server that is away")


def _reading(builder: Declaration) -> None:
    builder.option("mode", choice(STREAM, QUEUE), STREAM, "how to read")
    builder.option("stream", not_empty, REQUIRED, "the name of the JetStream stream")
    builder.option("subject", not_empty, None, "only messages of it; `*` and `>` as in NATS")


def _stream() -> Any:
    builder = SourceBuilder.replayable(FORMAT, SCHEMA, splits, latest, read)
    builder.connect(Stream).close(Stream.close).distributed()
    _connecting(builder)
    _reading(builder)
    builder.option("startingSequence", starting, EARLIEST, "where a new query begins")
    meaning = "whether the query ends when messages are gone that it has not read, or warns"
    return builder.option("failOnDataLoss", boolean, True, meaning).build()


def _queue() -> Any:
    builder = SourceBuilder.stream(FORMAT, SCHEMA, create=Queue).fill(Queue.fill)
    builder.snapshot(Queue.snapshot).restore(Queue.restore)
    builder.acknowledge(Queue.acknowledge).destroy(Queue.destroy)
    _connecting(builder)
    _reading(builder)
    return builder.option("consumer", not_empty, REQUIRED, "name of the durable consumer").build()


def _sink() -> Any:
    builder = SinkBuilder.stream(FORMAT, create=Publisher)
    builder.receive_batch(Publisher.send).destroy(Publisher.close)
    _connecting(builder)
    meaning = "where all rows go; else the column `subject` says it"
    return builder.option("subject", not_empty, None, meaning).build()


_SOURCES, _SINK = {STREAM: _stream(), QUEUE: _queue()}, _sink()

# ---- The data source -----------------------------------------------------------------------------


@documented(_SOURCES[STREAM].parts.options)
class NatsDataSource(DataSource):
    """Messages that NATS JetStream keeps, as a source and as a sink: `pip install
    'tutorial_pkg[nats]'`.

    Reading in the mode `stream` (a topic: any number of queries read it, each from where it wants),
    with `spark.readStream` or `spark.read`:

    Parallelism: `parallelism` tasks, each a range of sequence numbers.
    Replay: any batch whose messages the stream still has.
    Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
        sink. Where messages are gone before they were read (deleted by age or size, stream deleted,
        or made again), the query ends, or with `failOnDataLoss` false warns in Spark's log, and
        goes on with what there is. A message deleted in the middle is not missed: nobody can tell
        it from one of another subject.

    Options:
    {options}
    With `subject`, `maxRowsPerTrigger` counts the messages of other subjects, too.

    Reading in the mode `queue` (each message goes to one reader), with `spark.readStream` and a
    folder: `.load(path)`:

    Parallelism: one connection, in the driver; tasks read slices of the log in `path`.
    Replay: any batch that Spark has not committed, from the log.
    Guarantee: exactly once, with a checkpoint and an idempotent or transactional sink, as long as
        nobody else reads with this `consumer`. A message is acknowledged when its row is on disk;
        one that comes again, after a crash on either side, is known by its sequence number.

    Options as above, and `consumer` (required; the name of the durable consumer, which is made if
    there is none), `path`, `maxBacklogBytes`, `maxBytesPerTrigger`, `maxRowsPerTrigger` as in
    `SourceBuilder.stream`; not `startingSequence`, `failOnDataLoss`. With the trigger
    `availableNow` only the log is read.

    Schema: subject STRING, data BINARY, sequence LONG, timestamp TIMESTAMP (when the server had
    it), headers MAP<STRING, STRING>, null where there is none.

    Writing, with `writeStream` in the output modes append and update:

    Parallelism: a connection in each task.
    Guarantee: at least once; exactly once, while the stream's duplicate window (two minutes, unless
        it was made with another) is longer than from the first try of a batch to its repetition:
        each message has an id of query, batch, partition and what the row holds, and the stream
        drops those that it has. A row that is repeated in another partition has another id: let
        the query be one whose rows come to the same partitions again.

    Columns: data STRING or BINARY; if they are there, subject STRING, headers MAP<STRING, STRING>,
    in which `Nats-Msg-Id` takes the place of the id. A null in
    `data` is a message without bytes.

    Options for writing: `subject` (where all rows go; else the column `subject` says it), and those
    to connect: `url`, `user`, `password`, `token`, `credentials`, `caFile`, `timeoutSeconds`.

    A secret is best not in the program: `${env:NATS_PASSWORD}`.

    Errors: `ImportError` without the client; `ValueError` for an option or a column;
    `PermissionError` when the server refuses; `TimeoutError` when it is away for longer than
    `timeoutSeconds`; `LookupError` for a stream or messages that are not there; `RuntimeError` that
    names a subject which no stream takes.

    After Hazelcast Jet's `jmsTopic` and `jmsQueue`; dropping repetitions by id: JetStream.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        self._source().parts.options.parse(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        made: DataSourceReader = _SOURCES[STREAM](self.options).reader(schema)
        return made

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        made: DataSourceStreamReader = self._source()(self.options).streamReader(schema)
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        made: DataSourceStreamWriter = _SINK(self.options).streamWriter(schema, overwrite)
        check_rows(schema, _SINK.parts.options.parse(self.options).subject)
        return made

    def _source(self) -> Any:
        """That of the option `mode`; a wrong one is told by either."""
        mode = self.options.get("mode", STREAM).lower()
        return _SOURCES.get(mode, _SOURCES[STREAM])
