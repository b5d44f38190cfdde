"""What a streaming source promises: each function tries one promise, and raises `Broken`."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

from tutorial_pkg.processes.query_process import wait_until
from tutorial_pkg.testing.common_promises import (
    UNKNOWN,
    must_leave_no_process,
    must_leave_nothing_open,
    must_refuse_unknown,
)
from tutorial_pkg.testing.described import LIMIT
from tutorial_pkg.testing.driver import Driver
from tutorial_pkg.testing.inside import check_rows
from tutorial_pkg.testing.promise import Broken, Promise, promise
from tutorial_pkg.testing.queries import offsets
from tutorial_pkg.testing.source_trial import MANY, PORTION, SourceTrial
from tutorial_pkg.testing.trial import SECONDS

MOST_IDLE = 0.5  # of one core: to ask a source again and again is work, too
BURSTS = (5_000, 20_000)  # rows
MOST_GROWTH = 6.0  # times the cost, for four times the rows; were it quadratic, it would be 16
WORTH_A_LOOK = 2.0  # seconds on a processor; what costs less does not matter
# Spark hands on a task's rows in bundles; with small ones a task can be ended in its middle.
BUNDLE = ("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
BUNDLES = 2_000  # more than the pipe between two processes holds


@promise(
    "Every row comes once.",
    "`read` yields what is from `start` on and before `end`; the next batch begins where this one "
    "ended. Look at how `latestOffset` and `partitions` treat the last row.",
    needs="number",
)
def every_row_once(trial: SourceTrial) -> None:
    """A small portion of rows, 1,000 at once, and another small one are fed to a running query."""
    for count in (PORTION, MANY, PORTION):
        trial.works(count)


@promise(
    "A batch can be read several times, also by another process: it has the same rows.",
    "`read` takes all it needs from its partition and changes nothing: no position in the reader, "
    "no cache that is used up, nothing deleted or acknowledged before `commit`.",
)
def same_rows_again(trial: SourceTrial) -> None:
    """Each batch is read twice; in between the processes that have read it are killed."""
    trial.run()
    trial.plan.rereads = True
    trial.feed()
    trial.read_on()
    trial.plan.rereads = False
    for first, second in trial.plan.reread:
        if Counter(first) != Counter(second):
            raise Broken(f"a batch had {len(first)} rows, and {len(second)} when read again")
    trial.compare("while batches were read twice")


@promise(
    "Rows fit the schema: their types, and no null where there is to be none.",
    "Give each row the columns of `schema`, in its order and types. Spark converts what does not "
    "fit, or fails far from the cause: of 1.5 in a LONG column it makes 1 without a word.",
    needs="python",
)
def rows_fit_schema(trial: SourceTrial) -> None:
    """A look inside: a new reader reads a batch once more, in tasks; its rows are checked."""
    for _ in range(2):
        trial.works()
    trial.stop()
    *_, start, end = offsets(trial.plan.checkpoint)
    check_rows(trial.spark, trial.plan, start, end)


@promise(
    "A task that ends half-way leaves no trace.",
    "A task may be killed at any row, and no `finally` runs then. Note nothing in `read`: what a "
    "task has reached is no offset.",
    needs="number restarts",
)
def half_read(trial: SourceTrial) -> None:
    """Each batch is read up to its first row, where Spark kills the task; then in whole."""
    with trial.setting(*BUNDLE):
        trial.plan.begins = True
        trial.restart()
        trial.feed(BUNDLE[1] * BUNDLES)
        trial.arrive("after tasks that ended half-way")
        trial.plan.begins = False


@promise(
    "A restarted query goes on where it stopped, twice in a row.",
    "Spark keeps the offset: `latestOffset` and `partitions` must begin at the `start` they are "
    "given. After a restart `initialOffset` is not called, and `self` is new.",
    needs="number restarts",
)
def restart(trial: SourceTrial) -> None:
    """The query is stopped and started twice; rows are fed before, while it is down, and after."""
    trial.works(when="before a restart")
    for turn in ("first", "second"):
        trial.stop()
        if trial.source.feed_when_stopped:
            trial.feed()
        trial.works(when=f"after the {turn} restart")


@promise(
    "A batch that failed in the sink is repeated with the same rows.",
    "Plan only what you can give again: `read` must stop at `end`, even if there is more by then, "
    "and nothing may be forgotten before `commit` says so.",
    needs="restarts",
)
def repeated_batch(trial: SourceTrial) -> None:
    """A batch's sink fails; more rows are fed; the query is started again."""
    trial.feed_failing()
    failed = max(trial.ledger.attempts())
    if trial.source.feed and trial.source.feed_when_stopped:
        trial.feed()
    trial.works(when="after a batch was repeated")
    first, *_, last = trial.ledger.attempts()[failed]
    if Counter(first) != Counter(last):
        raise Broken(f"batch {failed} had {len(first)} rows, and {len(last)} when repeated")


@promise(
    "The offset never goes back.",
    "Return the larger one of `start` and what you know. Spark accepts a smaller offset, and reads "
    "from there again.",
)
def offset_never_back(trial: SourceTrial) -> None:
    """Rows are fed, with a pause and a restart; then all offsets in the checkpoint are compared."""
    trial.works()
    if trial.source.restarts:
        trial.restart()
    trial.works()
    found = offsets(trial.plan.checkpoint)
    for batch, (before, after) in enumerate(pairwise(found)):
        if went_back(before, after):
            raise Broken(f"from batch {batch} to the next the offset went {before} → {after}")


def went_back(before: Any, after: Any) -> bool:
    """Whether `after` is `before` with some numbers smaller and none larger, and nothing else."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    if old.keys() != new.keys():
        return False
    differing = [(old[at], new[at]) for at in old if old[at] != new[at]]
    numbers = all(isinstance(value, int | float) for pair in differing for value in pair)
    return bool(differing) and numbers and all(end < start for start, end in differing)


def _leaves(offset: Any, at: str = "") -> Any:
    """What an offset's JSON holds, with where it is."""
    if isinstance(offset, dict | list):
        parts = offset.items() if isinstance(offset, dict) else enumerate(offset)
        for key, value in parts:
            yield from _leaves(value, f"{at}/{key}")
    else:
        yield at, offset


@promise(
    "A source with nothing to read leaves the processor to others.",
    "Wait for what comes (a timeout on a socket or a queue, a pause between two looks), and make a "
    "look without news cheap: Spark asks `latestOffset` many times a second.",
    needs="feed",
)
def idle(trial: SourceTrial) -> None:
    """All is read; then the processor's use is measured, until it was low for a second of three."""
    trial.works()
    for _ in range(3):
        used = trial.processor_seconds(partial(time.sleep, 1))
        if used <= MOST_IDLE:
            return
    raise Broken(f"with nothing to read, {used:.0%} of a core were in use")


@promise(
    "Four times the rows cost about four times as much.",
    "Look for work that is done for each row and grows with the rows: a file read from its start "
    "to find a position, a list searched or copied, text put together piece by piece.",
    needs="feed number",
)
def linear(trial: SourceTrial) -> None:
    """5,000 rows are fed at once, then 20,000; the time on processors is compared."""
    trial.run()
    small, large = (trial.processor_seconds(partial(_burst, trial, rows)) for rows in BURSTS)
    if large > max(MOST_GROWTH * small, WORTH_A_LOOK):
        times = BURSTS[1] // BURSTS[0]
        raise Broken(f"{times} times the rows took {large / small:.0f} times the processor's time")


def _burst(trial: SourceTrial, rows: int) -> None:
    trial.feed(rows)
    trial.arrive(f"with {rows} rows at once")


@promise(
    "A batch is not larger than its limit.",
    "Apply the limit in `latestOffset(start, limit)`; return it in `getDefaultReadLimit`.",
    needs="limit",
)
def limit(trial: SourceTrial) -> None:
    """Rows for several batches of 10 are fed at once."""
    trial.run(trial.source.limit)
    first = len(trial.ledger.attempts())
    trial.feed(3 * LIMIT + LIMIT // 2)
    trial.arrive(f"under {trial.source.limit}")
    sizes = [len(tries[-1]) for tries in list(trial.ledger.attempts().values())[first:]]
    if max(sizes) > LIMIT:
        raise Broken(f"under {trial.source.limit} a batch had {max(sizes)} rows, not {LIMIT}")


@promise(
    "availableNow reads all there is, and ends.",
    "Mix in `SupportsTriggerAvailableNow`, note in `prepareForTriggerAvailableNow` how far there "
    "is something to read, and return that from `latestOffset`, never more.",
    needs="number unread",
)
def available_now(trial: SourceTrial) -> None:
    """Rows wait unread; a query with this trigger must read them, and end by itself."""
    trial.feed_unread()
    trial.drain(lambda: trial.plan.start(trial.spark, trial.source.limit, drain=True))
    trial.compare("after availableNow")


@promise(
    "The parallelism may change with a restart.",
    "Keep what an offset means apart from how many tasks read: an entry for each file, port or "
    "table, not for each task. Read old entries to their end.",
    needs="number restarts other_parallelism",
)
def other_parallelism(trial: SourceTrial) -> None:
    """The query runs, is restarted with another parallelism, and goes back to the first one."""
    trial.ensure_worked()
    for more in (trial.source.other_parallelism, None):
        trial.works(when=f"with {more or 'the first parallelism'}", more=more)


@promise(
    "An unknown option is refused, with its name.",
    "Compare the names of `self.options` with those that you know (Spark makes them small "
    "letters), and raise `ValueError` in `schema`, for Spark 4.3 hides what `streamReader` raises "
    "behind an UnboundLocalError. A typing error in an option otherwise becomes a silent default.",
)
def unknown_option(trial: SourceTrial) -> None:
    """A query is started with an option that nobody can know."""
    trial.stop()

    def run() -> None:
        trial.run({UNKNOWN: 1})
        trial.read_on()

    must_refuse_unknown(run)


@promise(
    "No process stays when the query has stopped.",
    "Close what you opened in the reader's `stop`, and make threads daemons and children end with "
    "their parent: Spark ends the reader's process without asking twice.",
)
def nothing_left(trial: SourceTrial) -> None:
    """The processes under Spark's JVM before all queries and after them are compared."""
    trial.ensure_worked()
    must_leave_no_process(trial)


@promise(
    "No port and no file stays open when the query has stopped.",
    "The workers of tasks live on, and with them what `read` opened: close it there, with `with` "
    "or `finally`.",
)
def nothing_open(trial: SourceTrial) -> None:
    """Ports of Spark's processes, and open files in the source's folder, are looked for."""
    trial.ensure_worked()
    must_leave_nothing_open(trial)


@promise(
    "Nothing is lost or doubled by `kill -9` of the driver.",
    "An offset that Spark has seen must be readable by a process that knows nothing else: write to "
    "disk, and sync, before you return it. Memory, temporary folders and `stop` do not survive.",
    needs="number restarts",
)
def killed(trial: SourceTrial) -> None:
    """The query runs in drivers of its own, which die while rows come; the last one reads on."""
    trial.killed(trial.plan, lambda driver: _feed_some(trial, driver))
    trial.works(when="after `kill -9`")


def _feed_some(trial: SourceTrial, driver: Driver) -> None:
    """A first portion comes through; then some more are fed, and not waited for."""

    def arrived() -> bool:
        driver.check()
        return trial.arrived()

    trial.feed()
    wait_until(arrived, SECONDS, "the first rows in a driver of its own")
    for _ in range(3):
        trial.feed(PORTION // 4)


SOURCE_PROMISES: list[Promise[SourceTrial]] = [
    every_row_once,
    same_rows_again,
    rows_fit_schema,
    half_read,
    restart,
    repeated_batch,
    offset_never_back,
    idle,
    linear,
    limit,
    available_now,
    other_parallelism,
    unknown_option,
    nothing_left,
    nothing_open,
    killed,
]
