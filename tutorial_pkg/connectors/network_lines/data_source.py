"""The format `network_lines`: lines that senders write to TCP ports, kept in a log on disk."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tutorial_pkg.connectors.network_lines.listener import Listener
from tutorial_pkg.connectors.network_lines.ports import host_address
from tutorial_pkg.connectors.network_lines.whole_lines import UNLIMITED, Limits
from tutorial_pkg.core.lines import EVENT_TIME, MODE, to_lines, with_event_time
from tutorial_pkg.core.options import (
    Option,
    Options,
    OptionValues,
    boolean,
    choice,
    documented,
    integer,
)
from tutorial_pkg.durable_log.group import Backlog, LogGroup
from tutorial_pkg.durable_log.reader import Framed, LogReader, log_options
from tutorial_pkg.durable_log.segments import Frame

_PATH, *_LIMITS = log_options("lines", "port")
OPTIONS = Options(
    "network_lines",
    [
        _PATH,
        Option(
            "host",
            host_address,
            "127.0.0.1",
            "where to listen",
            "an address or a name of this machine, such as 127.0.0.1, ::1, or 0.0.0.0 for every "
            "IPv4 address",
        ),
        Option("port", integer(1, 65535), 11000, "the first TCP port"),
        Option(
            "parallelism",
            integer(1, 64),
            1,
            "how many ports: `port`, `port` + 1 and so on, each with a log and a thread of its own",
        ),
        Option(
            "maxLineBytes",
            integer(1, 64 * 1024 * 1024, unit="bytes"),
            1024 * 1024,
            "a longer line is dropped and counted; a connection may need as much memory",
        ),
        Option(
            "unterminated",
            choice("drop", "keep"),
            "drop",
            "what becomes of a rest that no newline has ended when a sender closes its connection",
        ),
        Option(
            "maxConnections",
            integer(1),
            256,
            "senders connected to one port at once; further ones wait",
        ),
        Option(
            "idleTimeout",
            integer(1, unit="seconds"),
            300,
            "a connection that has not ended a line for so long is closed",
        ),
        *_LIMITS,
        Option("includeMetadata", boolean, False, "add port INT, received_at TIMESTAMP"),
        EVENT_TIME,
        MODE,
    ],
)


@documented(OPTIONS)
class NetworkLinesDataSource(DataSource):
    """Lines from the network, any number of senders: `cat data.csv | nc 127.0.0.1 11000`.

    A listener in the driver's reader process appends complete lines to a segment log; an offset
    is a position in that log, on disk before Spark sees it. Tasks read slices of the log.

    Parallelism: `parallelism` ports, and each port's new lines are cut into slices, so that one
        busy port keeps all cores at work. Tasks must see `path` under the same name.
    Replay: any batch that the source has not been told to forget (Spark's commit).
    Guarantee: exactly once from the log on, with a checkpoint and an idempotent or transactional
        sink. What had not reached the log when the process died is lost: plain TCP has no
        acknowledgement. But a sender that waits for the connection's close, as `send_lines`
        does, learns it: a close in good order says that all its lines are on disk, where no
        power failure takes them; anything else, a reset, says that some may not be.

    Options:
    {options}

    Schema: value STRING; then with includeMetadata port INT, received_at TIMESTAMP; then with
    eventTime event_time TIMESTAMP.

    A line ends with a newline. A rest that none has ended is dropped and counted: the system
    closes a killed sender's connection in good order, too, and nothing tells `amount=10` of a
    whole line from that of `amount=1000`. The sender is told, with a line of text and a reset, as
    with a line that is too long. Where a last line without newline is usual, as with
    `printf 'last' | nc`, unterminated=keep takes it, and counts it; but not when the connection
    breaks, is idle for too long, or the query stops.

    A new query reads what the log still holds. With other ports than before, the old ports' lines
    are read to their end. With the trigger `availableNow` no port is opened: the query reads what
    is in the log, and stops.

    The log is for its user and group only, and no symbolic link in it is followed.

    Errors: `ValueError` for an option; `OSError` for a port in use, tried again for 10 seconds,
    and for too few file descriptors; `LogLockedError` when another query writes to the log;
    `LogNotVisibleError` where a worker does not see it; `LogDamagedError`; `ValueError` when the
    checkpoint does not fit the log.

    The log is after Kafka's; the offset by port after Kafka's partitions.
    """

    @classmethod
    def name(cls) -> str:
        return "network_lines"

    def schema(self) -> str:
        options = _parse(self.options)
        metadata = ", port INT, received_at TIMESTAMP" if options.includeMetadata else ""
        event_time = ", event_time TIMESTAMP" if options.eventTime else ""
        return f"value STRING{metadata}{event_time}"

    def streamReader(self, schema: StructType) -> NetworkLinesReader:
        return NetworkLinesReader(_parse(self.options))


class NetworkLinesReader(LogReader):
    """A log for each port; the listener fills them."""

    def __init__(self, options: OptionValues) -> None:
        super().__init__(options, _ports(options), "port")

    def start_producer(self, logs: LogGroup, backlog: Backlog) -> Listener:
        return _start_listener(self.options, logs, backlog)

    def to_batch(self, found: list[Framed], number: int) -> pa.RecordBatch:
        return _batch(found, number, self.options)


def _parse(given: Mapping[str, str]) -> OptionValues:
    options = OPTIONS.parse(given)
    last = options.port + options.parallelism - 1
    if last > 65535:
        raise ValueError(
            f"format `network_lines`: options `port` {options.port} and `parallelism` "
            f"{options.parallelism} ask for ports up to {last}; the last must be at most 65535"
        )
    return options


def _ports(options: OptionValues) -> range:
    return range(options.port, options.port + options.parallelism)


def _start_listener(options: OptionValues, logs: LogGroup, backlog: Backlog) -> Listener:
    limits = Limits(
        line_bytes=options.maxLineBytes,
        connections=options.maxConnections,
        idle_seconds=options.idleTimeout,
        frame_rows=options.maxRowsPerTrigger or UNLIMITED,
        frame_bytes=options.maxBytesPerTrigger or UNLIMITED,
        keep_unterminated=options.unterminated == "keep",
    )
    return Listener(logs.directory, options.host, _ports(options), backlog, limits)


def _batch(group: list[Framed], port: int, options: OptionValues) -> pa.RecordBatch:
    payloads = [payload for _, payload in group]
    columns = {"value": to_lines(payloads[0] if len(payloads) == 1 else b"".join(payloads))}
    if options.includeMetadata:
        columns |= _metadata([frame for frame, _ in group], port)
    batch = pa.RecordBatch.from_pydict(columns)
    return with_event_time(batch, options.mode) if options.eventTime else batch


def _metadata(found: list[Frame], port: int) -> dict[str, pa.Array]:
    rows = [frame.rows for frame in found]
    received_at = np.repeat([frame.received_at for frame in found], rows)
    return {
        "port": pa.array(np.full(sum(rows), port, np.int32)),
        "received_at": pa.array(received_at).cast(pa.timestamp("us", tz="UTC")),
    }
