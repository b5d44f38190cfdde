"""`SourceBuilder`: four ways to build a source, by what can be asked of the system behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tutorial_pkg.builder.batch_source import BatchSourceBuilder
from tutorial_pkg.builder.built import Schema
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.cursor_source import CursorSourceBuilder
from tutorial_pkg.builder.cursor_source import Read as ReadPage
from tutorial_pkg.builder.declaration import State
from tutorial_pkg.builder.replayable_source import Look, Read, ReplayableSourceBuilder, adapted
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

    Started again with the same log and checkpoint, the query continues where it was, however it
    died.

    Which one?

    - `stream`: what comes by itself and is gone then: sensors, sockets, queues, a broker that wants
      to be acknowledged. The builder keeps it in a log on disk.
    - `cursor`: a service that gives pages, each with the place of the next one. Through a log as
      well, or without one where a page can be asked for again.
    - `replayable`: what can be asked for the same rows again, and for how far it goes: tables,
      topics, files. No log; only offsets.
    - `batch`: what ends: the same functions as `stream`, in tasks, without a log.

    What follows `stream(...)`, each with a function of yours. A second function replaces the first.
    Only `.fill` is required:

    - `.fill`: `fill(state, buffer)` adds what is available now with `buffer.add(row)`, and returns
    - `.snapshot`: `snapshot(state)` says where the source stands, as JSON
    - `.restore`: `restore(state, snapshots)` goes there, after a restart
    - `.acknowledge`: `acknowledge(state, tokens)`: the rows that were added by
      `buffer.add(row, token)` are on disk
    - `.destroy`: `destroy(state)` closes what `create` opened

    and, without one, `.distributed(2)`, `.option(name, parse, default, meaning)` (`.options(...)`
    takes several, each an `Option`, as formats share them), `.timestamps("column")`,
    `.heartbeat(seconds)`, `.retry(...)`, which all builders have, and at last `.build()`. All of
    them in detail: `help(tutorial_pkg.builder.StreamSourceBuilder)`. What a row may be, and
    `add_batch` and `close`: `help(tutorial_pkg.builder.Buffer)`. For `parse` in `.option` there are
    `integer`, `boolean`, `choice`, `not_empty`, `names`, `local_directory` and `secret`, and
    `REQUIRED` for `default`, to import from `tutorial_pkg.builder`; a function like `float` will
    do, too. A `secret` may name an environment variable, `${env:NAME}`;
    `context.options.password.reveal()` looks it up.

    An instance whose connection was refused begins anew, as after a restart of the query. So
    `.restore` may be called while other instances run, and must take only its own share.

    `cursor(...)` has its `read` from the start; `.splits`, `.connect`, `.close`, `.distributed`,
    `.replayable` and `.option` may follow: `help(tutorial_pkg.builder.CursorSourceBuilder)`.

    `replayable(...)` has its functions from the start; `.connect`, `.close`, `.bound`, `.commit`,
    `.distributed`, `.limit` and `.option` may follow:
    `help(tutorial_pkg.builder.ReplayableSourceBuilder)`. Several sources and a sink under one name:
    `help(tutorial_pkg.builder.Format)`.

    Functions run in other processes: they are pickled. Open connections and files in `create`;
    what cannot travel is refused by `build()`. A variable that they use has the value that it had
    when the source was registered. So where a loop makes several sources, register each in the
    loop: later all would have the last value. An error in a function ends the query and names
    it: `last_error(query)`. One error goes unnoticed: if a function that you give to
    `itertools.starmap` and the like raises `StopIteration`, as `next(...)` does, Python takes that
    for the end of the rows. Write a generator instead, in which it is an error.

    The idea and the names: Hazelcast Jet's `SourceBuilder`; acknowledging: Apache Beam.
    """

    @staticmethod
    def stream(
        name: str, schema: Schema, create: Callable[[SourceContext], State]
    ) -> StreamSourceBuilder[State]:
        """A stream from `create(context)`, which makes the state that the functions share.

        `context` has `index` and `count` of the instance, and the query's `options`. The option
        `parallelism` is there for all sources: an instance that does not take a share of its own by
        `index` gives the rows that the others give. Each instance
        has a state and a thread of its own in the driver's reader process, in which all its
        functions run. Go on with `.fill`, and with `.snapshot` and `.restore` if the source can go
        back to a place, or with `.acknowledge` if it wants to know what is safe. The rows go to a
        log on disk before Spark sees them: name a folder for it in `.load(path)`.
        `builder_status(path)` says how the instances are doing.

        With the trigger `availableNow` no instance is created: the query reads what is in the
        log, and stops. Spark's old trigger `once` stops before an instance has added anything.

        What is guaranteed, with a checkpoint and an idempotent or transactional sink? Only `fill`:
        what was added counts once; what had not been added when the process died is missing. So is
        what a `fill` had added before it failed and was tried again; then Spark's log has a
        warning. `snapshot` and `restore`: exactly once. `acknowledge`: nothing is lost, but what
        was on disk and not yet acknowledged comes again. All three, with the last message's id in
        the snapshot: exactly once.

        Args:
            name: of the format: letters, digits and `_`.
            schema: of the rows, as in `"number LONG, text STRING"`, a `StructType`, or a function
                of the query's options that returns one of these. A query's own `.schema(...)`
                replaces it: then tuples fill its columns from left to right, whatever their names
                are. Dicts go by name.
            create: a function of one parameter, the context.
        """
        return StreamSourceBuilder(name, schema, create)

    @staticmethod
    def batch(
        name: str, schema: Schema, create: Callable[[SourceContext], State]
    ) -> BatchSourceBuilder[State]:
        """Rows until `buffer.close()`, for `spark.read`: each instance is a task.

        The functions `create`, `fill` and `destroy` are as in `stream`. A task that fails is
        repeated by Spark from its `create` on. Without an error, too, Spark reads more than once:
        for each action, and before a sort (`orderBy`), of which it takes a sample. So `fill` must
        not take away what it reads, as from a queue: the rows would be in the sample alone.
        """
        return BatchSourceBuilder(name, schema, create)

    @staticmethod
    def cursor(name: str, schema: Schema, read: ReadPage) -> CursorSourceBuilder:
        """A stream of pages: one function says what is on a page, and where the next one begins.

            def read(context, split, position):
                url = f"{context.options.url}?since={position or 0}"
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found = json.load(answer)
                rows = [(order["id"], order["item"]) for order in found]
                return rows, rows[-1][0] if rows else position

            orders = (
                SourceBuilder.cursor("orders", "id LONG, item STRING", read)
                .option("url", not_empty, REQUIRED, "the service")
                .build()
            )
            spark.dataSource.register(orders)
            stream = spark.readStream.format("orders").option("url", "http://localhost:8080/orders")
            rows = stream.load("/the/log")

        `position` is None at first, then what `read` returned with the page before: a page number,
        a token, an ETag, or whatever JSON can hold; tuples come back as lists. Rows are as in
        `Buffer.add`: a list of them, a record batch, or several. An iterator will do, unless you
        have walked through it to find the position, or its `with` has closed what it reads: then it
        has no rows left. When there is nothing new, `read` returns no rows and the same position,
        and it is called again after `pollSeconds`. No rows and a new position mean an empty page,
        and it is called for the next one immediately. Rows with the same position are an error,
        because they would come again and again. So is None or `""` as the position after a page.

        To begin with what comes from now on, let `.splits` give the first position, which is kept
        before the first page is read. A position behind pages without rows is kept when a page with
        rows comes: if the query is stopped before that, those pages are asked for again.

        A page that still grows needs a position within it: `[number, rows_seen]`. Take the position
        from all that the service gave, also from what you leave out: a page of which nothing is
        left would be the end. The last row has it only where the oldest rows come first.

        What appears before a position is never asked for. An id is no position where several write,
        and a smaller one may be committed after a larger one; nor is a time that rows share, unless
        no page ends between them (with the id behind it, `[time, id]`, it is one); nor the number
        of rows where some are deleted. Nobody but you can tell, either, whether the service is that
        of the last run: with another URL the query goes on at the same position, and rows before it
        are missing. So keep its name in the position, and raise `ValueError` for another one; or in
        the split's name, since another split is read from its beginning.

        Through the log or not? By default a page is in the log on disk, as one frame with the next
        position, before Spark sees it, and it is never asked for again: whatever becomes of it on
        the other side, batches are repeated from the log. `.replayable()` does without the log if a
        page can be asked for again for as long as the query may repeat a batch; its help says
        exactly when that is so, and the promise is checked. A crash may come before a page is in
        the log: then that page is asked for again, with or without `.replayable()`. A service that
        gives each page only once needs `SourceBuilder.stream` with `.acknowledge`.

        Guarantee: exactly once, with a checkpoint and an idempotent or transactional sink, if
        `read` changes nothing on the other side. `context.options` has the query's options,
        `context.connection` what `.connect` has opened, `context.schema` the `StructType`.
        `.splits` names several splits, each with pages of its own. The trigger `availableNow` goes
        to the end of each split, once; Spark's old trigger `once` ends before a page is in the log.
        `spark.read` reads all pages from the first one on, in a task for each split, without a log
        and a path. Limits count rows, and no page is cut.

        Args:
            name: of the format: letters, digits and `_`.
            schema: as in `stream`.
            read: `read(context, split, position)` returns the rows of a page and the position of
                the next one.
        """
        return CursorSourceBuilder(name, schema, read)

    @staticmethod
    def replayable(
        name: str,
        schema: Schema,
        look: Look | Any = None,
        read: Read | Any = None,
        _read: Any = None,
        *,
        splits: Any = None,
        latest: Any = None,
    ) -> ReplayableSourceBuilder:
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
                `context.offset` has the query's positions by split name, so that you can begin
                elsewhere at the very first look, when it is None.
            read: `read(context, split, start, end)` runs in a task. Yield the rows from `start` up
                to, but without, `end`, as in `Buffer.add`, or record batches. For the same two
                positions, always yield the same rows. Yield them within your `with` blocks: an
                iterator that you return is read after they are closed.

        New splits are read from `first` on, from the batch after the one in which they appear. A
        split that vanishes keeps its position, and a split whose `end` goes back is left alone
        until it grows past that position again.

        *Identity.* A name can come to stand for something else: a topic or a table is re-created,
        a database restored, and new rows get positions that the query has read already. Return
        `Split(first, end, identity=...)` with the server's own id of the table or topic, and
        declare `.options(FAIL_ON_DATA_LOSS)`. The query then ends with a `LookupError`, or warns if
        its option `failOnDataLoss` is false, when

        - the name has another identity than at the last batch (the new one is read from `first`)
        - the split does not exist any more
        - rows before `first` are gone that the query has not read
        - the split ends before the query's position.

        A checkpoint has `name@identity` for such a split. If a source adds identities later, the
        query continues at the positions that it has by name. In a task, `context.identity` is what
        the batch was planned for: compare it again, since the batch may be repeated much later.

        *Positions.* Strings are compared letter by letter: "10" comes before "9". With integers, a
        limit may end a batch at any number. If rows start at some of them only, as with bytes of a
        file, add a `.bound`, or rows are torn. Positions must become visible in order: where
        several writers take ids, a smaller one may be committed after a larger one, and is missed
        then. So are rows that get a time which an earlier batch has read already: do not return
        more than the current second as `end`.

        *Batches.* `spark.read` works, too. It calls `look` once, with `context.batch` true, and
        reads every split from `first` to `end`. What `read` needs to know of a split goes into its
        `payload`, and is `context.payload` in the task. `.distributed` cuts splits whose positions
        are integers for several tasks.

        Guarantee: exactly once if `read` keeps its promise, with a checkpoint and an idempotent or
        transactional sink. `context.options` has the query's options, `context.connection` what
        `.connect` opened in this process. For transient errors see `.retry`.
        """
        if _read is not None or splits is not None:  # temporary: the functions of earlier versions
            look, read = adapted(splits or look, latest or read), _read or read
            return ReplayableSourceBuilder(name, schema, look, read, is_adapted=True)
        return ReplayableSourceBuilder(name, schema, look, read)
