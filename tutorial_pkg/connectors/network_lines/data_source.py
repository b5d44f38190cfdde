"""The format `network_lines`: lines that senders write to TCP ports, kept in a log on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tutorial_pkg.connectors.network_lines.notes import FORGET_SECONDS
from tutorial_pkg.connectors.network_lines.ports import host_address
from tutorial_pkg.core.line_options import EVENT_TIME, MODE
from tutorial_pkg.core.options import (
    Option,
    Options,
    OptionValues,
    accepts,
    boolean,
    choice,
    documented,
    integer,
    names,
)
from tutorial_pkg.core.spark_versions import stream_reader, warn_of_limits
from tutorial_pkg.durable_log.group import Backlog, LogGroup, Logs, Number
from tutorial_pkg.durable_log.handover import ReceivedLogs, is_received
from tutorial_pkg.durable_log.reader import Framed, LogReader, log_options

if TYPE_CHECKING:
    import pyarrow as pa

    from tutorial_pkg.connectors.network_lines.listener import Listener
    from tutorial_pkg.connectors.network_lines.tls import TlsFiles


@accepts("a PEM file that can be read")
def pem_file(text: str) -> str:
    """A parser for the path of a file that can be read."""
    path = Path(text).expanduser().absolute()
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise ValueError
    return str(path)


METADATA = "port INT, received_at TIMESTAMP_LTZ, client STRING"
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
            "what becomes of a last line without a newline when a sender closes its connection",
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
            "a connection that has not ended a line for this long is closed",
        ),
        Option(
            "protocol",
            choice("lines", "relp"),
            "lines",
            "what senders speak: plain lines and the package's own `send`, or rsyslog's RELP",
        ),
        Option(
            "tlsCertificate",
            pem_file,
            None,
            "listen with TLS 1.2 or newer, and show clients this certificate (with those it needs "
            "behind it); a renewed file is used for the next connection",
        ),
        Option("tlsKey", pem_file, None, "its private key, if that is in another file"),
        Option(
            "tlsClientCa",
            pem_file,
            None,
            "let in only clients whose certificate these authorities have issued",
        ),
        Option(
            "allowedClients",
            names,
            None,
            "let in only those of them whose certificate has one of these names; all by default",
        ),
        Option(
            "forgetNamesAfter",
            integer(1, unit="seconds"),
            FORGET_SECONDS,
            "the position of a named sender that has been silent for this long is forgotten, "
            "and its file would be sent from its start",
        ),
        *_LIMITS,
        Option(
            "includeMetadata", boolean, False, "add port INT, received_at TIMESTAMP, client STRING"
        ),
        EVENT_TIME,
        MODE,
    ],
)


@documented(OPTIONS)
class NetworkLinesDataSource(DataSource):
    r"""Lines from the network, any number of senders: `cat data.csv | nc 127.0.0.1 11000`.

    A listener in the driver's reader process, or a receiver of its own, appends complete lines to a
    segment log; an offset is a position in that log, on disk before Spark sees it. Tasks read
    slices of the log.

    Parallelism: `parallelism` ports, and each port's new lines are cut into slices, so that one
        busy port keeps all cores at work. Tasks must see `path` under the same name.
    Replay: any batch that the source has not been told to forget (Spark's commit).
    Guarantee: with a checkpoint and an idempotent or transactional sink, exactly once from a sender
        with a name; from any other sender exactly once from the log on; over RELP at least once.

    What senders learn, and when: no line is confirmed before the sync to disk, so no power failure
    takes what was confirmed.

    - A sender with a name (`python -m tutorial_pkg send FILE --name host-7`, or `--follow PATH`)
      gets a confirmation after each block, and learns at each connect how far it has come. That
      position is in the same frame of the log as the lines. So after any failure, start it again,
      and it goes on there.
    - Any other sender learns from the end of its connection. If the receiver closes it in good
      order after the sender has, all its lines are on disk. A reset means that some may not be, and
      nothing says which. `send_lines` waits for the close, for at most five minutes without a sign
      of life (`timeout`).
    - rsyslog gets an acknowledgement after each message, and resends what was not acknowledged.
      Some of that may be in the log already.

    Options:
    {options}

    Schema: value STRING; then with includeMetadata port INT, received_at TIMESTAMP, client STRING
    (the name in the sender's certificate, null without one); then with eventTime event_time
    TIMESTAMP.

    A line ends with a newline; one carriage return before it is dropped. Bytes that are not UTF-8
    become U+FFFD. A last line without a newline is dropped and counted: the system closes a killed
    sender's connection in good order, too, and nothing tells a whole `amount=10` from the beginning
    of `amount=1000`. The sender is told, with a line of text and a reset, as with a line that is
    too long. Where a last line without newline is usual, as with `printf 'last' | nc`,
    unterminated=keep takes it, and counts it; but not when the connection breaks, is idle for too
    long, or the query stops.

    A new query reads what the log still holds. With other ports than before, the old ports' lines
    are read to their end. With the trigger `availableNow` no port is opened: the query reads what
    is in the log, and stops.

    TLS: with `tlsCertificate` the ports speak nothing else. `tlsClientCa` makes clients show a
    certificate, and `allowedClients` lets in only some of them. Their names are the DNS names of a
    certificate, its other alternative names, and its common name. Refused clients are counted, and
    `network_status` quotes the last reason. Without TLS, an address that other machines can reach
    causes a warning.

    Named senders: one connection for a name at a time, and one file, or one followed path, for a
    name. A log knows its own senders only: to another receiver a name is new. A file that was
    replaced or truncated is refused: its lines could be there already. A name that has been silent
    for `forgetNamesAfter` is forgotten, and what it sends then comes again.

    A receiver of its own: `python -m tutorial_pkg receive PATH --port 11000` keeps the ports open.
    It takes these options as words with dashes (`--max-backlog-bytes`). Queries on PATH then only
    read: they may restart, or stay away until `maxBacklogBytes` is full, and no sender notices. The
    receiver deletes what the query has committed, so a log has one query. A glob for `path`, as
    Spark has them (`*`, `?`, `[a-c]`, `{a,b}`), reads the logs of all receivers whose folders
    match, and of new ones after a second or two. Keep the folder of a receiver that is gone: a
    checkpoint that has read it needs it. A folder that was restored from an older copy needs a new
    checkpoint: when it has grown again, nobody can tell it from the one that the query has read. To
    have queries listen themselves again, delete `received.json` there while nothing runs.

    RELP: `value` has the message as rsyslog sends it, in its default template
    `<133>2026-11-23T07:12:36.988655+00:00 host app: text`. Its fields:

        fields = r"^<(\d+)>(\S+) (\S+) ([^\s:]+): ?(.*)"
        lines.select(
            F.floor(F.regexp_extract("value", fields, 1).cast("int") / 8).alias("facility"),
            F.regexp_extract("value", fields, 2).cast("timestamp").alias("time"),
            F.regexp_extract("value", fields, 3).alias("host"),
            F.regexp_extract("value", fields, 5).alias("message"),
        )

    The log is readable by its user and group only, and no symbolic link in it is followed.

    Errors: `ValueError` for an option; `OSError` for a port in use, tried again for 10 seconds,
    and for too few file descriptors; `LogLockedError` when another query writes to the log, or
    reads a receiver's; `LogNotVisibleError` where a worker does not see it; `LogDamagedError`;
    `ValueError` when the checkpoint does not fit the log.

    The ideas are Kafka's: the log, an offset for each port (its partitions), and positions that the
    receiver keeps (the transactional ids of its producers).
    """

    @classmethod
    def name(cls) -> str:
        return "network_lines"

    def schema(self) -> str:
        options = parse_options(self.options)
        warn_of_limits(self.name(), options, log=True)
        metadata = f", {METADATA}" if options.includeMetadata else ""
        event_time = ", event_time TIMESTAMP_LTZ" if options.eventTime else ""
        return f"value STRING{metadata}{event_time}"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(NetworkLinesReader(parse_options(self.options)))


class NetworkLinesReader(LogReader):
    """A log for each port; the listener fills them."""

    def __init__(self, options: OptionValues) -> None:
        super().__init__(options, _ports(options), "port")

    def open_logs(self) -> Logs:
        """Where a receiver writes, a query only reads."""
        if is_received(self.options.path):
            return ReceivedLogs(self.options.path, "port")
        return super().open_logs()

    def start_producer(self, logs: LogGroup, backlog: Backlog) -> Listener:
        return start_listener(self.options, logs, backlog)

    def to_batch(self, found: list[Framed], number: Number) -> pa.RecordBatch:
        from tutorial_pkg.connectors.network_lines.rows import to_batch  # with Arrow

        port = int(str(number).rpartition("/")[2])
        return to_batch(found, port, self.options)


def parse_options(given: Mapping[str, str]) -> OptionValues:
    options = OPTIONS.parse(given)
    last = options.port + options.parallelism - 1
    if last > 65535:
        raise ValueError(
            f"format `network_lines`: options `port` {options.port} and `parallelism` "
            f"{options.parallelism} ask for ports up to {last}; the last must be at most 65535"
        )
    _check_tls(options)
    return options


def _check_tls(options: OptionValues) -> None:
    for option, needed in (
        ("tlsKey", "tlsCertificate"),
        ("tlsClientCa", "tlsCertificate"),
        ("allowedClients", "tlsClientCa"),
    ):
        if getattr(options, option) and not getattr(options, needed):
            raise ValueError(f"format `network_lines`: option `{option}` needs `{needed}` as well")
    files = tls_files(options)
    if files:
        try:
            files.context()
        except ValueError as error:
            raise ValueError(f"format `network_lines`: option {error}") from None


def tls_files(options: OptionValues) -> TlsFiles | None:
    """What the ports need for TLS, if they are to speak it."""
    if not options.tlsCertificate:
        return None
    from tutorial_pkg.connectors.network_lines.tls import TlsFiles

    clients = options.allowedClients or ()
    return TlsFiles(options.tlsCertificate, options.tlsKey, options.tlsClientCa, clients)


def _ports(options: OptionValues) -> range:
    return range(options.port, options.port + options.parallelism)


def start_listener(options: OptionValues, logs: LogGroup, backlog: Backlog) -> Listener:
    """Imported here, because only one of Spark's Python processes listens."""
    from tutorial_pkg.connectors.network_lines.listener import Listener
    from tutorial_pkg.connectors.network_lines.whole_lines import UNLIMITED, PortLimits

    limits = PortLimits(
        line_bytes=options.maxLineBytes,
        connections=options.maxConnections,
        idle_seconds=options.idleTimeout,
        frame_rows=options.maxRowsPerTrigger or UNLIMITED,
        frame_bytes=options.maxBytesPerTrigger or UNLIMITED,
        keep_unterminated=options.unterminated == "keep",
        forget_seconds=options.forgetNamesAfter,
        relp=options.protocol == "relp",
    )
    tls = tls_files(options)
    return Listener(logs.directory, options.host, _ports(options), backlog, limits, tls=tls)
