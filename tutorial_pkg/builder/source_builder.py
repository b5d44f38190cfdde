"""`SourceBuilder`: five ways to build a source, by what can be asked of the system behind it."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.cursor_source import CursorSourceBuilder
from tutorial_pkg.builder.cursor_source import Read as ReadPage
from tutorial_pkg.builder.declaration import Schema, State
from tutorial_pkg.builder.functions import Functions
from tutorial_pkg.builder.pushed import Listen, Listener
from tutorial_pkg.builder.replayable_source import Look, Read, ReplayableSourceBuilder
from tutorial_pkg.builder.stream_source import BatchSourceBuilder, StreamSourceBuilder


class SourceBuilder:
    """Builds a Spark source from a few functions.

        from tutorial_pkg import SourceBuilder, start_spark
        from tutorial_pkg.builder import integer

        class Counter:
            def __init__(self, context):
                self.next = context.options.first

            def fill(self, buffer):
                for _ in range(100):
                    buffer.add(self.next)
                    self.next += 1

            def go_to(self, snapshots):
                self.next = snapshots[0]

        source = (
            SourceBuilder.stream("counter", "number LONG", create=Counter)
            .fill(Counter.fill)
            .snapshot(lambda counter: counter.next)
            .restore(Counter.go_to)
            .option("first", integer(0), 0, "the first number")
            .build()
        )
        spark = start_spark()
        spark.dataSource.register(source)
        numbers = spark.readStream.format("counter").option("first", 10).load("/the/log")
        writer = numbers.writeStream.format("parquet").option("path", "/the/numbers")
        query = writer.option("checkpointLocation", "/the/checkpoint").start()

    Started again with the same log and checkpoint, the query resumes where it was, however it died.

    - `stream`: events that arrive once: sensors, sockets, queues. A log on disk keeps them.
    - `pushed`: the same for clients that call back: WebSockets, MQTT, server-sent events.
    - `cursor`: pages of a service.
    - `replayable`: what can be asked for the same rows again: tables, topics, files. No log.
    - `batch`: what ends.

    `help(tutorial_pkg.builder)` names the builders and `Buffer`, which says what a row may be.
    Functions are pickled and run in other processes: open connections in `create` or `.connect`. An
    error in one ends the query and names it: `last_error(query)`. Guarantees, positions and
    retries: docs/builder.md. The idea and the names are from Hazelcast Jet's `SourceBuilder`,
    acknowledging is from Apache Beam.
    """

    @staticmethod
    def stream(
        name: str, schema: Schema, create: Callable[[SourceContext], State]
    ) -> StreamSourceBuilder[State]:
        """Build a stream of events from `create(context)`, which makes the functions' state.

        Each instance has its own state and thread in the driver's reader process, and its own log
        in the folder that you name in `.load(path)`: see `builder_status(path)`.

        Args:
            name: the format.
            schema: `"number LONG, text STRING"`, a `StructType`, or a function of the query's
                options that returns one of these.
            create: its `context` is a `SourceContext`.
        """
        return StreamSourceBuilder(name, schema, create)

    @staticmethod
    def pushed(name: str, schema: Schema, listen: Listen) -> StreamSourceBuilder[Listener]:
        """Build a stream from a client that calls back, or blocks until the next event.

            def listen(context, emit, resume_from):
                client = Client(context.options.url, since=resume_from)
                for event in client.events():
                    emit((event.id, event.text), event.id)

        `listen` runs in a thread of its own. `emit(row, position)` hands over a row, and blocks
        while 1,000 are waiting; don't change lists in it afterwards. `resume_from` is the position
        of the last row in the log; None at the first start. A position is any JSON value, and may
        be left out.

        When the query stops, `emit` raises `SystemExit`: close the client in a `with` or `finally`.
        A `listen` that waits for something else waits for `context.stopped`, a `threading.Event`.
        An error in `listen` ends the query. A return counts as a lost connection: like one, it is
        retried from the last position, see `.retry`. Call `context.connected.set()` once there is
        a connection, if it may then be silent for longer than `retrySeconds`.

        Guarantee: exactly once, if the service resends what follows a position. Otherwise exactly
        once from the log on: what was emitted but not in the log when the process died is missing,
        and so is what the service sent until the restart.
        """

        def create(context: SourceContext) -> Listener:
            return Listener(Functions(name, {"listen": listen}), context)

        builder = StreamSourceBuilder(name, schema, create).fill(Listener.fill)
        builder.snapshot(Listener.snapshot).restore(Listener.restore).destroy(Listener.destroy)
        return builder._set("listen", listen, "context", "emit", "resume_from")

    @staticmethod
    def batch(
        name: str, schema: Schema, create: Callable[[SourceContext], State]
    ) -> BatchSourceBuilder[State]:
        """Build a batch for `spark.read`: each instance is a task, until it calls `buffer.close()`.

        Spark may read more than once, so `fill` must not take away what it reads.
        """
        return BatchSourceBuilder(name, schema, create)

    @staticmethod
    def cursor(name: str, schema: Schema, read: ReadPage) -> CursorSourceBuilder:
        """Build a stream of pages: one function returns a page and where the next one begins.

            def read(context, split, position):
                url = f"{context.options.url}?since={position or 0}"
                with urllib.request.urlopen(url, timeout=10) as response:
                    orders = json.load(response)
                rows = [(order["id"], order["item"]) for order in orders]
                return rows, rows[-1][0] if rows else position

        `position` is None at first, then what `read` returned with the page before: anything that
        JSON can hold. At the end of the pages return no rows and the same position; `read` is
        called again after `pollSeconds`. A page goes to a log on disk before Spark sees it, unless
        you add `.replayable()`. `spark.read` reads all pages, with a task for each split.
        """
        return CursorSourceBuilder(name, schema, read)

    @staticmethod
    def replayable(name: str, schema: Schema, look: Look, read: Read) -> ReplayableSourceBuilder:
        """Build a stream of what can be asked for again, from two functions; no log is needed.

        A *split* is a part with positions that grow: a table, a topic's partition, a file. A
        position is the place of the next unread row, an integer or a string. A table's inserts:

            def look(context):
                [last] = context.connection.execute("SELECT max(id) FROM orders").fetchone()
                return {"orders": (0, (last or 0) + 1)}

            def read(context, split, start, end):
                between = "SELECT id, item FROM orders WHERE id >= ? AND id < ?"
                yield from context.connection.execute(between, (start, end))

        `look` returns the current splits by name, each as `(first, end)` or as a `Split`: where a
        query that does not know the split yet starts to read, and the position after the last row.
        Ask your server once for all of them: Spark calls `look` before each batch, and some five
        times a second while nothing is new. `read` runs in a task. Yield the rows from `start` up
        to, but without, `end`; for the same two positions, always yield the same rows.

        A split that vanishes, or ends earlier than before, stays at its position. docs/builder.md
        has more on positions, identities of splits, and rows that are gone.
        """
        return ReplayableSourceBuilder(name, schema, look, read)
