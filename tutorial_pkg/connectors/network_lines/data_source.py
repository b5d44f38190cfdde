"""The format `network_lines`: lines that senders write to TCP ports, kept in a log on disk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

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
from tutorial_pkg.core.spark_versions import stream_reader
from tutorial_pkg.durable_log.group import LogGroup, Logs
from tutorial_pkg.durable_log.handover import ReceivedLogs, is_received
from tutorial_pkg.durable_log.reader import Framed, LogReader, log_options

if TYPE_CHECKING:
    import pyarrow as pa

    from tutorial_pkg.connectors.network_lines.listener import Listener

_ADDRESS = re.compile(r"[A-Za-z0-9_.:-]+(%[A-Za-z0-9_.-]+)?")


@accepts("a PEM file that can be read")
def pem_file(text: str) -> str:
    """A parser for the path of a file; `server_context` tries to read it."""
    return str(Path(text).expanduser().absolute())


@accepts("an address or name of this machine: 127.0.0.1, ::1, 0.0.0.0 for every IPv4 address")
def host_address(text: str) -> str:
    """A parser for an address to listen on: IPv4, IPv6 with or without brackets, or a name."""
    address = text.removeprefix("[").removesuffix("]") if text.startswith("[") else text
    if not _ADDRESS.fullmatch(address):
        raise ValueError
    return address


METADATA = "port INT, received_at TIMESTAMP_LTZ, client STRING"
_PATH, *_LIMITS = log_options("lines", "port")
OPTIONS = Options(
    "network_lines",
    [
        _PATH,
        Option("host", host_address, "127.0.0.1", "where to listen"),
        Option("port", integer(1, 65535), 11000, "the first TCP port"),
        Option("parallelism", integer(1, 64), 1, "how many ports, each with a log and a thread"),
        Option(
            "maxLineBytes",
            integer(1, 64 * 1024 * 1024, unit="bytes"),
            1024 * 1024,
            "a longer line is dropped and counted (over RELP it is cut and marked); a connection "
            "may need as much memory",
        ),
        Option("unterminated", choice("drop", "keep"), "drop", "a last line without a newline"),
        Option("maxConnections", integer(1), 256, "senders at one port at once; others wait"),
        Option(
            "idleTimeout",
            integer(1, unit="seconds"),
            300,
            "close a connection that completes no line for this long",
        ),
        Option("protocol", choice("lines", "relp"), "lines", "what senders speak; rsyslog: relp"),
        Option(
            "tlsCertificate",
            pem_file,
            None,
            "listen with TLS 1.2 or newer, with this certificate (and those it needs behind it); a "
            "renewed file is used for the next connection",
        ),
        Option("tlsKey", pem_file, None, "its private key, if in another file"),
        Option(
            "tlsClientCa",
            pem_file,
            None,
            "admit only clients certified by these authorities; a sender may use the names in its "
            "certificate and below (`host-7`, `host-7/nginx`)",
        ),
        Option("allowedClients", names, None, "admit only certificates with one of these names"),
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
    """Lines that any number of senders write to TCP ports: `cat data.csv | nc 127.0.0.1 11000`.

    A listener in the driver, or a separate receiver (`python -m tutorial_pkg receive PATH`), writes
    complete lines to a log on disk. An offset is a position in that log, and tasks read slices of
    it. docs/formats/network_lines.md has senders, TLS, receivers, RELP and the protocol.

    Parallelism: `parallelism` ports. Each port's new lines are also cut into slices, so one busy
        port keeps all cores at work. Tasks must see `path` under the same name.
    Replay: any batch, until Spark commits the next one.
    Guarantee: with a checkpoint and an idempotent or transactional sink, exactly once from a sender
        with a name (`send --name`); from other senders exactly once from the log on; over RELP at
        least once. No line is confirmed to a sender before it is on disk.

    Options:
    {options}

    Schema: value STRING; with includeMetadata also port INT, received_at TIMESTAMP, client STRING
    (the name in the sender's certificate); with eventTime also event_time TIMESTAMP.

    A line ends with a newline; one carriage return before it is dropped. Bytes that are not UTF-8
    become U+FFFD. A last line without a newline is dropped, counted and reported to the sender. A
    client that speaks something else than the port is refused, and `network_status` says what.

    Errors: `ValueError` for an option, and when the checkpoint does not fit the log; `OSError` for
    a port in use (after 10 seconds) and for too few file descriptors; `LogLockedError` when another
    query uses the log; `LogNotVisibleError` where a worker does not see it; `LogDamagedError`.
    """

    @classmethod
    def name(cls) -> str:
        return "network_lines"

    def schema(self) -> str:
        options = parse_options(self.options)
        metadata = f", {METADATA}" if options.includeMetadata else ""
        event_time = ", event_time TIMESTAMP_LTZ" if options.eventTime else ""
        return f"value STRING{metadata}{event_time}"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(NetworkLinesReader(parse_options(self.options)))


class NetworkLinesReader(LogReader):
    """A log for each port; the listener fills them."""

    def __init__(self, options: OptionValues) -> None:
        super().__init__(options, ports_of(options), "port")

    def open_logs(self) -> Logs:
        """Only read the logs if a receiver writes them."""
        if is_received(self.options.path):
            return ReceivedLogs(self.options.path, "port")
        return super().open_logs()

    def start_producer(self, logs: LogGroup) -> Listener:
        # Imported here, because only one of Spark's processes listens.
        from tutorial_pkg.connectors.network_lines.listener import Listener

        return Listener(logs, self.options)

    def to_batch(self, frames: list[Framed], number: str) -> pa.RecordBatch:
        from tutorial_pkg.connectors.network_lines.payload import to_batch  # with Arrow

        port = int(number.rpartition("/")[2])
        return to_batch(frames, port, self.options)


def parse_options(texts: Mapping[str, str]) -> OptionValues:
    """Return the options' values. Raises `ValueError` that names the option."""
    options = OPTIONS.parse(texts)
    last = options.port + options.parallelism - 1
    if last > 65535:
        raise ValueError(
            f"format `network_lines`: options `port` {options.port} and `parallelism` "
            f"{options.parallelism} ask for ports up to {last}; the last must be at most 65535"
        )
    for option, needed in (
        ("tlsKey", "tlsCertificate"),
        ("tlsClientCa", "tlsCertificate"),
        ("allowedClients", "tlsClientCa"),
    ):
        if getattr(options, option) and not getattr(options, needed):
            raise ValueError(f"format `network_lines`: option `{option}` needs `{needed}` as well")
    if options.tlsCertificate:
        from tutorial_pkg.connectors.network_lines.tls import server_context

        try:
            server_context(options)
        except ValueError as error:
            raise ValueError(f"format `network_lines`: option {error}") from None
    return options


def ports_of(options: OptionValues) -> range:
    """Return the numbers of the ports."""
    return range(options.port, options.port + options.parallelism)
