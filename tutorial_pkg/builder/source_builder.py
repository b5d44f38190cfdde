"""`SourceBuilder`: four ways to build a source, by what can be asked of the system behind it."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_pkg.builder.batch_source import BatchSourceBuilder
from tutorial_pkg.builder.built import Schema
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.cursor_source import CursorSourceBuilder
from tutorial_pkg.builder.cursor_source import Read as ReadPage
from tutorial_pkg.builder.declaration import State
from tutorial_pkg.builder.replayable_source import Look, Read, ReplayableSourceBuilder
from tutorial_pkg.builder.stream_source import StreamSourceBuilder


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

    - `stream`: events that arrive once: sensors, sockets, queues. A log on disk keeps them. Add
      `.fill`, and `.snapshot`, `.restore`, `.acknowledge`, `.destroy`, `.timestamps("column")`,
      `.heartbeat(seconds)`: see `help(tutorial_pkg.builder.StreamSourceBuilder)`, and
      `help(tutorial_pkg.builder.Buffer)` for what a row may be.
    - `cursor`: pages of a service, with `.splits`, `.connect`, `.close`, `.replayable`: see
      `help(tutorial_pkg.builder.CursorSourceBuilder)`.
    - `replayable`: what can be asked for the same rows again: tables, topics, files. Offsets, no
      log, with `.connect`, `.close`, `.bound`, `.commit`, `.limit`: see
      `help(tutorial_pkg.builder.ReplayableSourceBuilder)`.
    - `batch`: what ends, with the functions of `stream`.

    All have `.option(name, parse, default, meaning)` (`.options(...)` takes several),
    `.retry(...)`, `.distributed(count)` and `.build()`. For `parse` take `integer`, `boolean`,
    `choice`, `not_empty`, `names`, `local_directory` or `secret` of `tutorial_pkg.builder`, or a
    function like `float`; with `REQUIRED` as its `default` an option is mandatory. A `secret` may
    name an environment variable, `${env:NAME}`; `context.options.password.reveal()` looks it up.

    Functions are pickled and run in other processes: open connections in `create` or `.connect`. An
    error in one ends the query and names it: `last_error(query)`. Guarantees, positions, retries:
    docs/builder.md. Several sources and a sink under one name: `help(tutorial_pkg.builder.Format)`.

    The idea and the names: Hazelcast Jet's `SourceBuilder`; acknowledging: Apache Beam.
    """

    @staticmethod
    def stream(
        name: str, schema: Schema, create: Callable[[SourceContext], State]
    ) -> StreamSourceBuilder[State]:
        """Build a stream of events from `create(context)`, which makes the functions' state.

        Each instance has its own state and thread in the driver's reader process, and its own log
        in the folder that you name in `.load(path)`. `builder_status(path)` reports how the
        instances are doing.

        Args:
            name: of the format: letters, digits and `_`.
            schema: of the rows, as in `"number LONG, text STRING"`, a `StructType`, or a function
                of the query's options that returns one of these. A query's own `.schema(...)`
                replaces it: then tuples fill its columns from left to right, dicts go by name.
            create: `create(context)` makes the state. `context` has the query's `options`, and
                `index` and `count` of the instance. Take a share by them, or each instance adds all
                rows.

        Guarantee, with a checkpoint and an idempotent or transactional sink: with `.snapshot` and
        `.restore` exactly once; with `.acknowledge` at least once; with both, and the last
        message's id in the snapshot, exactly once; with `.fill` alone, what was added counts once.
        The trigger `availableNow` creates no instance: it reads what is in the log.
        """
        return StreamSourceBuilder(name, schema, create)

    @staticmethod
    def batch(
        name: str, schema: Schema, create: Callable[[SourceContext], State]
    ) -> BatchSourceBuilder[State]:
        """Build a batch for `spark.read`: each instance is a task, until it calls `buffer.close()`.

        The functions `create`, `fill` and `destroy` are as in `stream`. Spark repeats a task that
        fails, and reads more than once: for each action, and for a sample before a sort. So `fill`
        must not take away what it reads, as from a queue.
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

            orders = (
                SourceBuilder.cursor("orders", "id LONG, item STRING", read)
                .option("url", not_empty, REQUIRED, "the service")
                .build()
            )
            spark.dataSource.register(orders)
            stream = spark.readStream.format("orders").option("url", "http://localhost:8080/orders")
            rows = stream.load("/the/log")

        `position` is None at first, then what `read` returned with the page before: anything that
        JSON can hold. Rows are as in `Buffer.add`: a list, or a record batch. At the end of the
        pages return no rows and the same position; `read` is called again after `pollSeconds`. Rows
        with the same position are an error, and so is None or `""` after a page.

        Rows that appear before a position are never read: docs/builder.md says which positions are
        safe. A page goes to a log on disk before Spark sees it, unless you add `.replayable()`. The
        trigger `availableNow` goes to the end of each split, once. `spark.read` reads all pages,
        with a task for each split, and needs no path. Limits count rows, and no page is cut.

        Guarantee: exactly once, with a checkpoint and an idempotent or transactional sink, if
        `read` changes nothing on the other side.
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

            source = (
                SourceBuilder.replayable("orders", "id LONG, item STRING", look=look, read=read)
                .connect(lambda options: sqlite3.connect(options.file))
                .option("file", not_empty, REQUIRED, "the database")
                .build()
            )
            orders = spark.readStream.format("orders").option("file", "/the/orders.db").load()

        Args:
            name: of the format: letters, digits and `_`.
            schema: as in `stream`. `context.schema` has it as a `StructType`.
            look: `look(context)` returns the current splits by name, each as `(first, end)` or as a
                `Split`. `first` is where a query that does not know the split yet starts to read,
                `end` the position after the last row. Ask your server once for all of them: Spark
                calls `look` before each batch, and some five times a second while nothing is new.
                `context.offset` has the query's positions by split name; it is None at the very
                first look, where you can begin elsewhere.
            read: `read(context, split, start, end)` runs in a task. Yield the rows from `start` up
                to, but without, `end`, as in `Buffer.add`, or record batches. For the same two
                positions, always yield the same rows, and within your `with` blocks.

        New splits are read from `first` on, from the batch after the one in which they appear. A
        split that vanishes, or ends earlier than before, stays at its position. If a name can come
        to stand for something else, such as a re-created table, return a `Split` with an `identity`
        and declare `.options(FAIL_ON_DATA_LOSS)`: then that, a vanished split, and rows
        that are gone before the query has read them end the query with a `LookupError`.

        `spark.read` calls `look` once, with `context.batch` true, and reads each split from `first`
        to `end`; its `payload` is `context.payload` in the task. `.distributed` cuts splits for
        several tasks, `.bound` says where a batch ends if positions do not count rows.

        Guarantee: exactly once if `read` keeps its promise, with a checkpoint and an idempotent or
        transactional sink. Which positions are safe, and more on identities: docs/builder.md.
        """
        return ReplayableSourceBuilder(name, schema, look, read)
