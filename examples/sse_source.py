"""Server-sent events as a source, exactly once if the server honors `Last-Event-ID`.

python examples/sse_source.py https://stream.wikimedia.org/v2/stream/recentchange /tmp/events
"""

import sys
from http.client import HTTPException
from urllib.request import Request, urlopen

from tutorial_pkg import SourceBuilder, run_until_signal, start_spark
from tutorial_pkg.builder import REQUIRED, not_empty


def listen(context, emit, resume_from):
    headers = {"Accept": "text/event-stream", "User-Agent": "sse_source"}
    if resume_from:
        headers["Last-Event-ID"] = resume_from
    with urlopen(Request(context.options.url, headers=headers), timeout=60) as lines:
        context.connected.set()  # `retrySeconds` starts over
        event = {}
        for line in lines:
            text = line.decode().rstrip("\r\n")
            if text:
                name, _, value = text.partition(":")  # the name of a comment is empty
                event.setdefault(name, []).append(value.removeprefix(" "))
                continue
            if "data" in event:
                last_id = event.get("id", [None])[-1]
                emit((last_id, "\n".join(event["data"])), last_id)
            event = {}


source = (
    SourceBuilder.pushed("sse", "id STRING, data STRING", listen)
    .option("url", not_empty, REQUIRED, "the address of the events")
    .retry(ConnectionError, TimeoutError, HTTPException)
    .build()
)

if __name__ == "__main__":
    url, folder = sys.argv[1:]
    spark = start_spark("events")
    spark.dataSource.register(source)
    events = spark.readStream.format("sse").option("url", url).load(f"{folder}/log")
    writer = events.writeStream.format("json").option("path", f"{folder}/events")
    run_until_signal(writer.option("checkpointLocation", f"{folder}/checkpoint").start())
