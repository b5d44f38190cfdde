"""The promises of a streaming source: each function tries one, and raises `Broken`."""

from __future__ import annotations

from collections import Counter
from functools import partial
from importlib.util import find_spec

from spark_connector_tests.described import LIMIT
from spark_connector_tests.driver import Driver
from spark_connector_tests.promise import Broken, Promise, promise
from spark_connector_tests.query_process import wait_until
from spark_connector_tests.rows import check_once, check_same, comparable
from spark_connector_tests.shared_promises import must_survive, server_down
from spark_connector_tests.source_trial import MANY, PORTION, SourceTrial
from spark_connector_tests.trial import FAR_ZONES

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None  # from Spark 4.2 on
PAGES = 3_079  # rows: several pages of most services
# Spark passes on a task's rows in bundles; with small ones a task can be ended in its middle.
BUNDLE = ("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
LARGE = 10_017  # in bundles of 5, more than the pipe between two processes holds


@promise(
    "Every row arrives once.",
    "`read` yields the rows from `start` up to, but not including, `end`, and the next batch "
    "starts where this one ended. Check what `latestOffset` and `partitions` do with the last row.",
    needs="number",
)
def every_row_once(trial: SourceTrial) -> None:
    """A running query gets 23 rows, then 1,013 at once, then 23, then one."""
    try:
        trial.works()
    except Broken as broken:
        broken.nothing_works = True
        raise
    for count in (MANY, PORTION, 1):
        trial.works(count)


@promise(
    "A large batch arrives whole.",
    "Look for a page size, a queue that is full, and a position that is recorded before its row is "
    "handed on.",
    needs="number feed",
)
def large_batch(trial: SourceTrial) -> None:
    """A running query gets 10,017 rows at once."""
    trial.works(LARGE)


@promise(
    "A new query reads the rows that were there before it.",
    "`initialOffset` is the position of the first row, not of the next one. If queries should "
    "start with the rows that arrive from then on, describe the source with `from_now=True`.",
    needs="number waiting restarts from_start",
)
def from_the_first_row(trial: SourceTrial) -> None:
    """A query with a new checkpoint reads rows that an earlier query has read."""
    trial.ensure_worked()
    trial.stop()
    with trial.another(trial.new_plan("new")):
        trial.run()
        trial.arrive("in a new query")
        trial.stop()


@promise(
    "Rows with smaller numbers may arrive later.",
    "Detect new data by position, not by the highest number, name or timestamp seen so far. A slow "
    "writer may add smaller ones later. If you rely on an order, say so in `not_claimed`.",
    needs="number feed",
)
def late_rows(trial: SourceTrial) -> None:
    """Some rows are fed, then rows with smaller numbers."""
    trial.run()
    later = range(trial.fed, trial.fed + PORTION)
    for numbers in (range(later.stop, later.stop + PORTION), later):
        trial.give(numbers)
        trial.read_on()
    trial.compare("after smaller numbers arrived later")


@promise(
    "Rows have the values that were fed, whatever the time zone of the machine.",
    "Compare what you read with what you yield, value by value. Usual suspects: a text cut to a "
    "column's width, a number that went through a float, 1.5 in a LONG column (Spark makes it 1), "
    "and a `datetime` without a zone (use `tz=UTC`).",
    needs="number row feed",
)
def values(trial: SourceTrial) -> None:
    """1,013 rows are compared with what `row` describes; of a Python source, also rows that are
    read in processes with the time zones of Nepal and of the Marquesas."""
    assert trial.source.row
    trial.plan.keeps = True
    trial.works(MANY)
    if trial.source.python and trial.source.restarts:
        for where in FAR_ZONES:
            with trial.far_zone(where):
                trial.works(when=f"with workers {where}")
    trial.plan.keeps = False
    for number, row in trial.plan.kept:
        for name, value in trial.source.row(number).items():
            if comparable(row[name]) != comparable(value):
                raise Broken(f"row {number} has {name} = {row[name]!r}; expected {value!r}")


@promise(
    "No new rows, no new batch.",
    "Without new rows, `latestOffset` returns what it returned before. An offset must not count "
    "calls or contain the time.",
    needs="feed",
)
def no_empty_batches(trial: SourceTrial) -> None:
    """After all rows were read, the query must come to rest within 20 batches."""
    trial.works()
    if trial.restless:
        raise Broken("all rows had arrived, and the query still ran 20 more batches")


@promise(
    "A batch can be read again, also by another process: the same rows in the same order.",
    "`read` takes all it needs from its partition and changes nothing: no position in the reader, "
    "no cache that is used up, and nothing deleted or acknowledged before `commit`. Sort listed "
    "files and keys.",
)
def same_rows_again(trial: SourceTrial) -> None:
    """Each batch is read twice; the processes that read it first are killed before the second
    time."""
    trial.run()
    trial.plan.rereads = True
    trial.feed(MANY)
    trial.read_on()
    trial.plan.rereads = False
    for first, second in trial.plan.reread:
        check_same(first, second, "when read again")
        if first != second:
            raise Broken("a batch had the same rows in another order when read again")
    trial.compare("while batches were read twice")


@promise(
    "A task that is killed while it reads leaves no trace.",
    "Don't record progress in `read`. A task may be killed at any row, and no `finally` runs then.",
    needs="number restarts",
)
def partial_read(trial: SourceTrial) -> None:
    """Each batch is read up to its first row, where Spark kills the task, and then as a whole."""
    with trial.setting(*BUNDLE):
        trial.plan.begins = True
        trial.run()
        trial.read_on()
        trial.feed(LARGE)
        trial.arrive("after tasks were killed while they read")
        trial.plan.begins = False


@promise(
    "A restarted query resumes where it stopped, twice in a row.",
    "Spark keeps the offset: `latestOffset` and `partitions` must begin at the `start` they get. "
    "After a restart there is a new reader, and `initialOffset` isn't called. In a builder, "
    "`snapshot` returns the position after the last row, and `restore` goes there.",
    needs="number restarts",
)
def restart(trial: SourceTrial) -> None:
    """The query is stopped and started twice; rows are fed before, meanwhile, and after."""
    trial.works(when="before a restart")
    for turn in ("first", "second"):
        trial.stop()
        if trial.source.feed_when_stopped:
            trial.feed()
        trial.works(when=f"after the {turn} restart")


@promise(
    "A repeated batch has the same rows.",
    "Plan only what you can return again. `read` must stop at `end`, even if more rows have "
    "arrived since, and nothing may be forgotten before `commit` allows it.",
    needs="restarts",
)
def repeated_batch(trial: SourceTrial) -> None:
    """One batch works, the next one fails in the sink; more rows are fed, and the query
    restarts."""
    trial.works()
    trial.feed_failing()
    failed = max(trial.ledger.attempts())
    if trial.source.waiting:
        trial.feed()
    trial.works(when="after a batch was repeated")
    first, *_, last = trial.ledger.attempts()[failed]
    check_same(first, last, "when repeated")


@promise(
    "A half-written row waits until it is complete.",
    "Read a line only when its newline is there, and a file only under its final name. The offset "
    "stays before a row that is still being written.",
    needs="number feed_halves",
)
def unfinished_row(trial: SourceTrial) -> None:
    """Half of a row is fed, and the query looks for rows; then comes the other half."""
    trial.ensure_worked()
    trial.run()
    assert trial.source.feed_halves
    halves = trial.source.feed_halves(trial.fed)
    next(halves)
    trial.read_all(lambda: True)
    trial.compare("while a row was half written")
    next(halves, None)
    trial.fed += 1
    trial.arrive("after a row was written in two halves")


@promise(
    "Rows arrive from every split: from empty ones, full ones, and ones that appear later.",
    "Look for new splits each time, start them at their first row, and keep a position for each in "
    "the offset.",
    needs="number feed_split",
)
def every_split(trial: SourceTrial) -> None:
    """Three splits get 1,013, 0 and 1 rows. A fourth appears while the query runs, and a fifth
    while it is stopped."""
    trial.run()
    for split, count in ((1, MANY), (2, 0), (3, 1)):
        trial.give(range(trial.fed, trial.fed + count), split)
    trial.arrive("with a full split, an empty one, and one with a row")
    trial.give(range(trial.fed, trial.fed + PORTION), 4)
    trial.arrive("with a split that appeared later")
    if trial.source.restarts and trial.source.waiting:
        trial.stop()
        for split in (5, 2):
            trial.give(range(trial.fed, trial.fed + PORTION), split)
        trial.run()
        trial.arrive("with a split that appeared while no query ran")


@promise(
    "Two queries each read all rows, or the second one is refused.",
    "Share nothing between queries: no consumer group, no record of finished rows, no row that is "
    "deleted when read. Or let the second query fail with an error.",
    needs="number feed restarts",
)
def two_queries(trial: SourceTrial) -> None:
    """A second query starts beside the first, and rows are fed to both."""
    trial.ensure_worked()
    trial.run()
    fed = trial.fed
    second = trial.new_plan("second")
    with trial.beside(lambda: second.start(trial.spark)) as outlives:
        runs = outlives(lambda: True)
        trial.works(MANY, "while a second query ran")
        with trial.another(second):
            if runs and outlives(trial.done):
                trial.compare("in the second of two queries", fed)


@promise(
    "A batch respects its limit, and the next one starts where it was cut.",
    "Apply the limit in `latestOffset(start, limit)`, and return it from `getDefaultReadLimit`. "
    "`end` is the first row of the next batch, whether or not the limit has cut this one. A split "
    "without a share in the batch stays where it is.",
    needs="limit",
)
def limit(trial: SourceTrial) -> None:
    """Rows for several batches of 10 are fed at once, to three splits if there are splits. The
    first batch fails, and a new reader takes over."""
    trial.run(trial.source.limit)
    first = len(trial.ledger.attempts())
    if trial.source.restarts:
        trial.plan.fails.touch()
    if trial.source.feed_split:
        for split in (1, 2, 3):
            trial.give(range(trial.fed, trial.fed + LIMIT + 1), split)
    else:
        trial.feed(3 * LIMIT + 3)
    if trial.source.restarts:
        trial.failed()
        trial.run(trial.source.limit)
    trial.arrive(f"under {trial.source.limit}")
    sizes = [len(tries[-1]) for tries in list(trial.ledger.attempts().values())[first:]]
    if max(sizes) > LIMIT:
        raise Broken(f"under {trial.source.limit} a batch had {max(sizes)} rows; expected {LIMIT}")


@promise(
    "availableNow reads all rows that are there, and then ends.",
    "Mix in `SupportsTriggerAvailableNow`. In `prepareForTriggerAvailableNow`, record the end of "
    "the data, up to the last page. Never return more than that from `latestOffset`; with a "
    "limit, Spark calls it until it returns that end.",
    needs="number unread",
)
def available_now(trial: SourceTrial) -> None:
    """A query with this trigger finds 3,079 rows, reads them, and ends. With a limit, rows for
    several batches of 10 are waiting, and more arrive after each batch."""
    trial.feed_unread(PAGES)
    trial.drain(lambda: trial.plan.start(trial.spark, drain=True))
    trial.compare("after availableNow")
    # Before Spark 4.2 a Python source doesn't see this trigger.
    if not trial.source.limit or (trial.source.python and not HAS_LIMITS):
        return
    trial.feed_unread(3 * LIMIT + 3)
    unread = trial.fed
    more = partial(trial.feed, LIMIT) if trial.source.waiting else None
    trial.drain(lambda: trial.plan.start(trial.spark, trial.source.limit, drain=True), more)
    rows = [number for number in trial.ledger.rows() if number < unread]
    check_once(range(unread), rows, "after availableNow with a limit")
    trial.run()
    trial.arrive("after rows arrived while availableNow ran")


@promise(
    "spark.read returns the rows that spark.readStream returns.",
    "The batch reader reads to the last page, takes the rows of every split once, and makes the "
    "same values of them.",
    needs="number feed batch",
)
def batch_read(trial: SourceTrial) -> None:
    """3,079 rows are fed, and all rows are read at once, without a stream."""
    trial.works(PAGES)
    with trial.blamed("spark.read"):
        rows = trial.plan.batch(trial.spark)
    check_once(trial.ledger.rows(), [number for number, _ in rows], "with spark.read")
    if changed := (Counter(rows) - Counter(trial.ledger.seen())).total():
        raise Broken(f"{changed:,} of {len(rows):,} rows had other values with spark.read")


@promise(
    "A query can be restarted with more or fewer tasks.",
    "Keep the offset independent of the number of tasks: one entry for each file, port or table, "
    "not for each task. Read the splits of old entries to their end.",
    needs="number restarts other_parallelism",
)
def other_parallelism(trial: SourceTrial) -> None:
    """The query is restarted with another parallelism, then with the first; rows are waiting."""
    trial.ensure_worked()
    for more in (trial.source.other_parallelism, None):
        trial.feed_unread()
        trial.works(when=f"with {more or 'the first parallelism'}", more=more)


@promise(
    "A read error fails the query; it is never mistaken for the end of the data.",
    "Catch only errors that you can repair, and raise all others: Spark repeats the batch. If you "
    "retry, resume after the last row that you have yielded.",
    needs="number feed restarts python",
)
def read_errors_surface(trial: SourceTrial) -> None:
    """In `read`, up to six calls that open or list files, or connect, raise an `OSError`."""
    must_survive(trial, "read", "raises")


@promise(
    "`kill -9` of the driver loses and duplicates no row.",
    "Another process must be able to read from any offset that Spark has seen. Write to disk, and "
    "sync, before you return one. Memory and temporary folders don't survive, and `stop` isn't "
    "called.",
    needs="number restarts",
)
def killed(trial: SourceTrial) -> None:
    """The query runs in its own driver, which is killed while rows arrive; then it is restarted."""
    trial.begun()
    trial.killed(lambda driver: _feed_some(trial, driver))
    trial.works(when="after `kill -9`")


def _feed_some(trial: SourceTrial, driver: Driver) -> None:
    """Wait for some rows to arrive; then feed more, and don't wait."""

    def arrived() -> bool:
        driver.check()
        return trial.done()

    trial.feed()
    wait_until(arrived, trial.seconds, "the arrival of the first rows in a driver")
    for _ in range(3):
        trial.feed(PORTION // 4)


SOURCE_PROMISES: list[Promise] = [
    every_row_once,
    large_batch,
    late_rows,
    from_the_first_row,
    values,
    no_empty_batches,
    same_rows_again,
    partial_read,
    restart,
    repeated_batch,
    unfinished_row,
    every_split,
    two_queries,
    limit,
    available_now,
    batch_read,
    other_parallelism,
    read_errors_surface,
    killed,
    server_down,
]
