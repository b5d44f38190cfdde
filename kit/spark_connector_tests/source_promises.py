"""What a streaming source promises: each function tries one promise, and raises `Broken`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import psutil

from spark_connector_tests.common_promises import (
    DECLARED,
    UNKNOWN,
    must_leave_no_process,
    must_refuse_unknown,
    must_survive,
    nothing_open,
    server_away,
    server_restarted,
    server_slow,
    steady,
)
from spark_connector_tests.described import LIMIT
from spark_connector_tests.driver import Driver
from spark_connector_tests.inside import check_rows
from spark_connector_tests.promise import (
    Broken,
    NothingWorks,
    NotTried,
    Promise,
    check_once,
    promise,
)
from spark_connector_tests.queries import Seen, forget_last_commit, offsets
from spark_connector_tests.query_process import wait_until
from spark_connector_tests.source_trial import MANY, PORTION, SourceTrial
from spark_connector_tests.trial import FAR_ZONES
from spark_connector_tests.values import comparable

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None  # from Spark 4.2 on
MOST_IDLE = 0.5  # of one core: to ask a source again and again is work, too
BURSTS = (5_003, 20_011)  # rows
MOST_GROWTH = 6.0  # times the cost, for four times the rows; were it quadratic, it would be 16
WORTH_A_LOOK = 2.0  # seconds on a processor; what costs less does not matter
PAGES = 3_079  # rows: several pages of most services
ERRORS = 6  # lines of `read` that fail
LOOKS = 4  # and of `latestOffset`
# Spark hands on a task's rows in bundles; with small ones a task can be ended in its middle.
BUNDLE = ("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
BUNDLES = 2_003  # more than the pipe between two processes holds

AS_OFTEN = (
    "The function that gives rows must give the same ones as often as it is asked, in the same "
    "order. Forget, delete or acknowledge in `commit` or `acknowledge` only."
)


@promise(
    "Every row comes once.",
    "`read` yields what is from `start` on and before `end`; the next batch begins where this one "
    "ended. Look at how `latestOffset` and `partitions` treat the last row.",
    needs="number",
    built="Give each row once, and a snapshot, an end or a next position that comes right after "
    "the last one given.",
)
def every_row_once(trial: SourceTrial) -> None:
    """A small portion of rows, 1,013 at once, another small one, and one row by itself are fed to
    a running query."""
    try:
        trial.works()
    except Broken as broken:
        raise NothingWorks(str(broken), broken.remedy, broken.cause) from broken
    for count in (MANY, PORTION, 1):
        trial.works(count)


@promise(
    "As long as no row comes, no batch begins.",
    "Without news `latestOffset` returns what it returned before: nothing in an offset may count "
    "looks, or tell the time.",
    built="Without news `look` returns the same ends, and `fill` adds nothing.",
    needs="feed",
)
def at_rest(trial: SourceTrial) -> None:
    """All is read; then no more than 20 batches may begin until the query has nothing to do."""
    trial.works()
    if trial.restless:
        raise Broken("no row was missing, yet the query went on for 20 batches")


@promise(
    "A batch can be read several times, also by another process: the same rows in the same order.",
    "`read` takes all it needs from its partition and changes nothing: no position in the reader, "
    "no cache that is used up, nothing deleted or acknowledged before `commit`. What lists files "
    "or keys sorts them.",
    built=AS_OFTEN,
)
def same_rows_again(trial: SourceTrial) -> None:
    """Each batch is read twice, every value; in between the processes that read it are killed."""
    trial.look_inside()
    trial.run()
    trial.plan.rereads = True
    trial.feed(MANY)
    trial.read_on()
    trial.plan.rereads = False
    for first, second in trial.plan.reread:
        check_same(first, second, "when read again")
        if first != second:
            raise Broken("a batch had the same rows when read again, in another order")
    trial.compare("while batches were read twice")


def check_same(first: list[Seen], second: list[Seen], when: str) -> None:
    """Raise `Broken` unless a batch has had the same rows twice, in any order."""
    numbers, again = ([number for number, _ in rows] for rows in (first, second))
    if Counter(numbers) != Counter(again):
        raise Broken(f"a batch had {len(first)} rows, and {len(second)} {when}")
    if Counter(first) != Counter(second):
        other = (Counter(first) - Counter(second)).total()
        raise Broken(f"of a batch of {len(first)} rows {other} had other values {when}")


@promise(
    "Rows fit the schema: their types, and no null where none is allowed.",
    "Give each row the columns of `schema`, in its order and types. Spark converts what does not "
    "fit, or fails far from the cause: of 1.5 in a LONG column it makes 1 without a word.",
    needs="python",
)
def rows_fit_schema(trial: SourceTrial) -> None:
    """A look inside: a new reader reads a batch once more, in tasks; its rows are checked."""
    trial.look_inside()
    for _ in range(2):
        trial.works()
    trial.stop()
    *_, start, end = offsets(trial.plan.checkpoint)
    check_rows(trial.spark, trial.plan, start, end)


@promise(
    "A row has the values that were fed: whole, of the same type, at the same time.",
    "Compare what you read with what you yield, value by value: a text cut to a column's width, a "
    "number that went through a float, a time without its zone.",
    needs="number row feed",
)
def values(trial: SourceTrial) -> None:
    """1,013 rows are fed, and every value that comes is compared with what `row` says."""
    trial.look_inside()
    trial.plan.keeps = True
    trial.works(MANY)
    trial.plan.keeps = False
    assert trial.source.row
    for number, came in trial.plan.kept:
        for name, value in trial.source.row(number).items():
            if comparable(came[name]) != comparable(value):
                seen = f"row {number} came with {name} = {came[name]!r}, and was fed with {value!r}"
                raise Broken(seen)


@promise(
    "What a row holds does not depend on the time zone of the machine that reads it.",
    "Give `datetime`s a zone (`tz=UTC`): one without is taken for the local time of whatever "
    "process reads it. Parse and print times with theirs.",
    needs="restarts python",
)
def any_zone(trial: SourceTrial) -> None:
    """Processes that believe they are in Nepal, and others that believe they are in the Marquesas,
    repeat the last batch; its values are compared."""
    trial.look_inside()
    trial.works()
    for where in FAR_ZONES:
        trial.stop()
        forget_last_commit(trial.plan.checkpoint)
        with trial.far_zone(where):
            trial.restart()
            *_, tries = trial.ledger.attempts().values()
            if len(tries) == 1:
                raise NotTried("the last batch was empty, so there was no row to read again")
            check_same(tries[0], tries[-1], f"in another time zone, {where}")


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
        trial.feed(BUNDLE[1] * BUNDLES + 2)
        trial.arrive("after tasks that ended half-way")
        trial.plan.begins = False


@promise(
    "A restarted query goes on where it stopped, twice in a row.",
    "Spark keeps the offset: `latestOffset` and `partitions` must begin at the `start` they are "
    "given. After a restart `initialOffset` is not called, and `self` is new.",
    needs="number restarts",
    built="`snapshot` must tell how far the rows given so far go, and `restore` go there; a "
    "function that is asked for a range keeps no position.",
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
    built=AS_OFTEN,
)
def repeated_batch(trial: SourceTrial) -> None:
    """A batch's sink fails; more rows are fed; the query is started again."""
    trial.feed_failing()
    failed = max(trial.ledger.attempts())
    if trial.source.feed and trial.source.feed_when_stopped:
        trial.feed()
    trial.works(when="after a batch was repeated")
    first, *_, last = trial.ledger.attempts()[failed]
    check_same(first, last, "when repeated")


@promise(
    "Rows with smaller numbers that come later are read, too.",
    "Know what is new by its place, not by the largest number, name or time so far: one writer "
    "may be slower than another one. Or say which order you rely on, in `not_claimed`.",
    needs="number feed",
)
def late_rows(trial: SourceTrial) -> None:
    """A portion of rows is fed, then one with the numbers before them."""
    trial.run()
    next_ones, late = (
        range(trial.fed + start, trial.fed + start + PORTION) for start in (PORTION, 0)
    )
    for numbers in (next_ones, late):
        trial.give(numbers)
        trial.read_on()
    trial.compare("after smaller numbers had come later")


@promise(
    "A row that is half written waits until it is whole.",
    "Take a line with its end only, a file under its last name only. Of what is being written, "
    "the offset is in front.",
    needs="number feed_halves",
)
def unfinished_row(trial: SourceTrial) -> None:
    """Half of a row is fed, and the query looks; then the other half."""
    trial.ensure_worked()
    trial.run()
    assert trial.source.feed_halves
    halves = trial.source.feed_halves(trial.fed)
    next(halves)
    trial.read_all(lambda: True)
    trial.compare("with half a row to read")
    next(halves, None)
    trial.fed += 1
    trial.arrive("after a row came in two halves")


@promise(
    "Rows come from every split: an empty one beside a full one, and one that appears later.",
    "Look for new splits at each look, begin them at their first row, and keep a position for each "
    "in the offset.",
    needs="number feed_split",
)
def every_split(trial: SourceTrial) -> None:
    """Three splits are fed, one of them nothing; one is new while the query runs, one after it."""
    trial.run()
    for split, count in ((1, MANY), (2, 0), (3, 1)):
        trial.give(range(trial.fed, trial.fed + count), split)
    trial.arrive("with a full split, an empty one, and one with a row")
    trial.give(range(trial.fed, trial.fed + PORTION), 4)
    trial.arrive("with a split that appeared later")
    if trial.source.restarts and trial.waiting:
        trial.stop()
        for split in (5, 2):
            trial.give(range(trial.fed, trial.fed + PORTION), split)
        trial.run()
        trial.arrive("with a split that appeared while no query ran")


@promise(
    "A new query reads what was there before it.",
    "`initialOffset` is where the first row is, not what comes next. If a query is to begin with "
    "what comes from then on, describe the source with `from_now=True`.",
    needs="number waiting restarts from_start",
    built="Without a `start` begin with the first row there is; or describe the source with "
    "`from_now=True`.",
)
def from_the_first_row(trial: SourceTrial) -> None:
    """A query with a new checkpoint reads rows that were fed before, and were read by another."""
    trial.ensure_worked()
    trial.stop()
    with trial.another("new"):
        trial.run()
        trial.arrive("with a new query on what was there")
        trial.stop()


@promise(
    "Two queries each read all rows, or the second one is refused.",
    "Share nothing between queries: no consumer group, no note of what is done, no row that "
    "is gone when it was read. Or let the second one fail, with an error.",
    needs="number feed restarts",
)
def two_queries(trial: SourceTrial) -> None:
    """A second query begins beside the first one; rows are fed to both."""
    trial.ensure_worked()
    trial.run()
    fed = trial.fed
    with trial.another("second") as plan:
        second = trial.started(lambda: plan.start(trial.spark))
        runs = trial.outlives(second, lambda: True)
    trial.works(MANY, "while a second query ran")
    with trial.another("second"):
        if runs and trial.outlives(second, trial.done):
            trial.compare("with the second one of two queries", fed)
    trial.end_beside()


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
    built="While nothing comes, `fill` and `look` are called many times a second: make a call "
    "without news cheap. `fill` may wait for what comes, for a second at most.",
)
def idle(trial: SourceTrial) -> None:
    """All is read; then the use of a core is measured, until it was low for a second of twenty."""
    trial.works()
    for _ in range(20):  # others may want the processor, too
        used, had = _used_and_had(trial)
        if used <= MOST_IDLE * had:
            return
    raise Broken(f"with nothing to read, {used / had:.0%} of what a core can do were in use")


def _used_and_had(trial: SourceTrial) -> tuple[float, float]:
    """What the query uses of a core in a second, and what a process gets of it that only spins.

    On a busy machine nobody gets a whole core.
    """
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        watched = psutil.Process(spinning.pid)
        used = trial.processor_seconds(partial(time.sleep, 1))
        return used, watched.cpu_times().user
    finally:
        spinning.kill()
        spinning.wait()


@promise(
    "Four times the rows cost about four times as much.",
    "Look for work that is done for each row and grows with the rows: a file read from its start "
    "to find a position, a list searched or copied, text put together piece by piece.",
    needs="feed number",
)
def linear(trial: SourceTrial) -> None:
    """5,003 rows are fed at once, then 20,011; the time on processors is compared."""
    trial.works()
    small, large = (trial.processor_seconds(partial(_burst, trial, rows)) for rows in BURSTS)
    if large > max(MOST_GROWTH * small, WORTH_A_LOOK):
        times = round(BURSTS[1] / BURSTS[0])
        raise Broken(f"{times} times the rows took {large / small:.0f} times the processor's time")


def _burst(trial: SourceTrial, rows: int) -> None:
    trial.feed(rows)
    trial.arrive(f"with {rows} rows at once")


@promise(
    "A batch is not larger than its limit, and the next one begins where it was cut.",
    "Apply the limit in `latestOffset(start, limit)`, and return it in `getDefaultReadLimit`: "
    "`end` is the first row of the next batch, whether or not the limit has cut this one. A split "
    "that has no share in a batch stays where it is.",
    needs="limit",
    built="A batch is cut by positions: where these do not count rows, let `.bound` say where it "
    "ends. What one `fill` adds, or a page has, is not cut: make it smaller.",
)
def limit(trial: SourceTrial) -> None:
    """Rows for several batches of 10 are fed at once, to three splits where there are some.

    The first batch fails, and a new reader goes on.
    """
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
        raise Broken(f"under {trial.source.limit} a batch had {max(sizes)} rows, not {LIMIT}")


@promise(
    "availableNow reads all there is, and ends.",
    "Mix in `SupportsTriggerAvailableNow`, note in `prepareForTriggerAvailableNow` how far there "
    "is something to read, to the last page, and return that from `latestOffset`, never more.",
    needs="number unread",
    built="`look` must tell how far each split goes now, to its last page.",
)
def available_now(trial: SourceTrial) -> None:
    """3,079 rows wait unread; a query with this trigger must read them, and end by itself."""
    trial.feed_unread(PAGES)
    trial.drain(lambda: trial.plan.start(trial.spark, drain=True))
    trial.compare("after availableNow")


@promise(
    "availableNow reads all there is in several batches, too, where there is a limit.",
    "With `SupportsTriggerAvailableNow` Spark asks `latestOffset` again until it returns what was "
    "there at the beginning. Without it there is one batch only.",
    needs="number unread limit",
    built="`.bound` may answer its `start` only where no row is left before `end`: for the builder "
    "that is the end.",
)
def limited_available_now(trial: SourceTrial) -> None:
    """Rows for several batches of 10 wait unread, for a query with this trigger and the limit.

    Where they can be fed without another query, 10 more come after each of its batches.
    """
    if trial.source.python and not HAS_LIMITS:
        raise NotTried("before Spark 4.2 a source in Python does not learn of this trigger")
    trial.feed_unread(3 * LIMIT + 3)
    unread = trial.fed
    more = partial(trial.feed, LIMIT) if trial.waiting else None
    trial.drain(lambda: trial.plan.start(trial.spark, trial.source.limit, drain=True), more)
    rows = [number for number in trial.ledger.rows() if number < unread]
    check_once(range(unread), rows, "after availableNow with a limit")
    trial.run()
    trial.arrive("after rows had come while availableNow ran")


@promise(
    "spark.read gives the rows that spark.readStream gives.",
    "The reader of batches goes to the last page, takes the rows of every split once, and makes "
    "the same values of them.",
    needs="number feed batch",
)
def batch_read(trial: SourceTrial) -> None:
    """3,079 rows are fed, and all are read at once, without a stream."""
    trial.works(PAGES)
    with trial.blamed("spark.read"):
        rows = trial.plan.batch(trial.spark)
    check_once(trial.ledger.rows(), [number for number, _ in rows], "with spark.read")
    if other := (Counter(rows) - Counter(trial.ledger.seen())).total():
        raise Broken(f"of {len(rows)} rows {other} had other values with spark.read")


@promise(
    "The parallelism may change with a restart, up and down.",
    "Keep what an offset means apart from how many tasks read: an entry for each file, port or "
    "table, not for each task. Read old entries to their end.",
    needs="number restarts other_parallelism",
    built="`restore` gets the snapshots of all earlier instances, however many there were: each "
    "instance takes its share of all of them.",
)
def other_parallelism(trial: SourceTrial) -> None:
    """The query is restarted with another parallelism, then with the first; rows are waiting."""
    trial.ensure_worked()
    for more in (trial.source.other_parallelism, None):
        trial.feed_unread()
        trial.works(when=f"with {more or 'the first parallelism'}", more=more)


@promise(
    "An error while a task reads is reported: it is never taken for the end of the rows.",
    "Catch what you can mend, such as one error a thousand rows further on, and raise all else: "
    "Spark repeats the batch. Who tries again by himself goes on behind the last row given.",
    needs="number feed restarts python",
)
def errors_told(trial: SourceTrial) -> None:
    """An `OSError` is raised inside `read`, before one line after the other, and behind a row that
    it has given; then inside `partitions`, and `latestOffset`. All rows must come, once."""
    must_survive(trial, "read", "raises", ERRORS)
    for method, most in (("partitions", ERRORS), ("latestOffset", LOOKS)):
        with contextlib.suppress(NotTried):  # of a simple reader, where they are Spark's
            must_survive(trial, method, "raises", most)


@promise(
    "An unknown option is refused, with its name.",
    "Compare the names of `self.options` with those that you know (Spark makes them small "
    "letters), and raise `ValueError` in `schema`, for Spark 4.3 hides what `streamReader` raises "
    "behind an UnboundLocalError. A typing error in an option otherwise becomes a silent default.",
    built=DECLARED,
    advice=True,
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
    built="End in `destroy` or `close` what `create` or `connect` started, and make threads "
    "daemons and children end with their parent: Spark ends their process without asking twice.",
)
def nothing_left(trial: SourceTrial) -> None:
    """The processes under Spark's JVM before all queries and after them are compared."""
    trial.ensure_worked()
    must_leave_no_process(trial)


@promise(
    "Nothing is lost or doubled by `kill -9` of the driver.",
    "An offset that Spark has seen must be readable by a process that knows nothing else: write to "
    "disk, and sync, before you return it. Memory, temporary folders and `stop` do not survive.",
    needs="number restarts",
    built="A snapshot or a position must be enough for a process that knows nothing else: memory "
    "and temporary folders do not survive, and `destroy` is not called.",
)
def killed(trial: SourceTrial) -> None:
    """The query runs in drivers of its own, which die while rows come; the last one reads on."""
    trial.begun()
    trial.killed(trial.plan, lambda driver: _feed_some(trial, driver))
    trial.works(when="after `kill -9`")


def _feed_some(trial: SourceTrial, driver: Driver) -> None:
    """A first portion comes through; then some more are fed, and not waited for."""

    def arrived() -> bool:
        driver.check()
        return trial.done()

    trial.feed()
    wait_until(arrived, trial.seconds, "the first rows in a driver of its own")
    for _ in range(3):
        trial.feed(PORTION // 4)


SOURCE_PROMISES: list[Promise[SourceTrial]] = [
    every_row_once,
    at_rest,
    values,
    from_the_first_row,
    same_rows_again,
    any_zone,
    rows_fit_schema,
    half_read,
    restart,
    repeated_batch,
    late_rows,
    unfinished_row,
    every_split,
    two_queries,
    offset_never_back,
    idle,
    steady,
    linear,
    limit,
    available_now,
    limited_available_now,
    batch_read,
    other_parallelism,
    errors_told,
    unknown_option,
    nothing_left,
    nothing_open,
    killed,
    server_restarted,
    server_away,
    server_slow,
]
