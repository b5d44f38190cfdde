"""Runs Flink jobs on request, in Flink's own environment: see `bench_peers.py`.

A request is a line of JSON on the standard input, [kind, lines, file]; the answer is a line with
the seconds. The jobs stay in the JVM from source to sink, so Python costs them nothing.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

from lines import send
from pyflink.common import WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.java_gateway import get_gateway

CORES = 2


def from_socket(lines: int, _: str) -> float:
    """From the first byte sent to the end of the job, which ends with its connection."""
    started: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=(server, lines, started))
        sender.start()
        environment = _environment(1)  # a socket stream has no more
        java = environment._j_stream_execution_environment
        stream = java.socketTextStream("127.0.0.1", server.getsockname()[1])
        _run(environment, DataStream(stream))
        ended = time.time()
        sender.join()
    return ended - started[0]


def from_file(_: int, file: str) -> float:
    """The job's own time, without what it takes to start a cluster."""
    environment = _environment(CORES)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), file).build()
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    return _run(environment, stream) / 1000


def _environment(parallelism: int) -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(parallelism)
    return environment


def _run(environment: StreamExecutionEnvironment, stream: DataStream) -> float:
    """Throw the stream's records away; the job's milliseconds."""
    sinks = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2
    stream._j_data_stream.sinkTo(sinks.DiscardingSink())
    return environment.execute().get_net_runtime()


def _send(server: socket.socket, lines: int, started: list[float]) -> None:
    with server.accept()[0] as client:
        started.append(time.time())
        send(client, lines)


def main() -> None:
    for request in sys.stdin:
        kind, lines, file = json.loads(request)
        took = {"socket": from_socket, "file": from_file}[kind](lines, file)
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
