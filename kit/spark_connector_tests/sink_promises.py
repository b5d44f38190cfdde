"""What a streaming sink promises: each function tries one promise, and raises `Broken`."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pyspark.errors import PySparkException

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
from spark_connector_tests.driver import Driver
from spark_connector_tests.promise import (
    Broken,
    NothingWorks,
    NotTried,
    Promise,
    check_once,
    promise,
)
from spark_connector_tests.queries import NOW, WRITERS, forget_last_commit
from spark_connector_tests.query_process import wait_until
from spark_connector_tests.sink_trial import (
    BATCH,
    BEYOND,
    LARGE,
    MANY,
    Onlooker,
    Row,
    SinkTrial,
)
from spark_connector_tests.trial import FAR_ZONES, KILLS

AWKWARD = " é 😀 \"q\" 'a', ; \t \\ \\n \r\n\n| <b>&amp; " + "x" * 10_000
# Blanks at both ends, letters that have another form, and more than two bytes can count.
MORE_TEXTS = (
    "  blanks  ",
    "\ttabs\t",
    "a line\r\n",
    "\n",
    "e\u0301 \uff21 \u0130 STRASSE Straße",
    "x" * 70_001,
    "100%25 %s {0} {{a}} $HOME ${a} :a ? @a",
)
WITH_NUL = "before\0after"  # C takes it for the end of the text
LINE_ENDS = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"  # to `splitlines`, and no one else
NO_NUMBERS = ("007", "1.50", "1e3", "NA", "TRUE")  # nor anything else but text
# How many rows Spark hands over at once: some tasks get several record batches.
BUNDLE = ("spark.sql.execution.arrow.maxRecordsPerBatch", 101)
CRASHES = 8  # lines of `commit` before which its process ends
ERRORS = 12  # and before which an error is raised
BESIDE = 30  # batches, at most, beside another query


@promise(
    "Every row is there once, also those written after a restart.",
    "`write` must consume its whole iterator and write the last buffer, too; `commit` must publish "
    "what every message names, whether or not the one before it has rows.",
    built="`flush` must write what `receive` still holds; `commit` must take all handles, whether "
    "or not the one before has rows.",
)
def every_row_once(trial: SinkTrial) -> None:
    """Small batches, some of 1,013 rows, one of 5,003, and one after a restart.

    One task of three has no row. Record batches have 101 rows at most.
    """
    with trial.setting(*BUNDLE):
        try:
            trial.works()
        except Broken as broken:
            raise NothingWorks(str(broken), broken.remedy, broken.cause) from broken
        for count in (MANY, MANY, BATCH, LARGE):
            trial.add(count)
        trial.arrive("while the query ran")
    if trial.sink.restarts:
        trial.works(when="after a restart")


@promise(
    "A reader sees a batch whole or not at all.",
    "Publish in one step that cannot be seen half done: one transaction, one rename, one line in "
    "an index that readers go by.",
    needs="once",
    built="Give `commit`, and publish there, in one transaction or one rename.",
)
def whole_batches(trial: SinkTrial) -> None:
    """A reader looks again and again while three batches are written."""
    trial.run()
    with Onlooker(trial) as onlooker:
        batches = [frozenset(trial.add()) for _ in range(3)]
        trial.read_all(trial.done)
    _raise_error_of(onlooker)
    for view in onlooker.views:
        for batch in batches:
            if view & batch and not batch <= view:
                raise Broken(f"a reader saw {len(view & batch)} of the {len(batch)} rows")


@promise(
    "What a reader has seen is never taken away.",
    "Only add: a file that is written anew must replace the old one in one step (`os.replace`), "
    "after it is complete.",
)
def never_taken_back(trial: SinkTrial) -> None:
    """A reader looks again and again while three batches are written."""
    trial.run()
    with Onlooker(trial) as onlooker:
        for _ in range(3):
            trial.add()
        trial.read_all(trial.done)
    _raise_error_of(onlooker)
    for before, after in pairwise(onlooker.views):
        if before - after:
            raise Broken(f"a reader saw {len(before - after)} rows that were gone a moment later")


def _raise_error_of(onlooker: Onlooker) -> None:
    if onlooker.error:
        raise Broken(f"a reader failed while the query wrote: {onlooker.error!r}")


@promise(
    "A batch without rows is written like any other.",
    "There may be no row, no message, or a task without rows: begin with nothing, not with the "
    "first row.",
)
def empty_batch(trial: SinkTrial) -> None:
    """An empty batch comes between two others."""
    for count in (BATCH, 0, BATCH):
        trial.works(count, "with an empty batch")


@promise(
    "Text comes back as it was: quotes, line ends, backslashes, any letter, any length.",
    "Escape what separates rows and columns in your format, and write UTF-8 whatever the locale. "
    "Nothing on the way may take a text for a number, as a column `STRING` of SQLite does.",
)
def awkward_text(trial: SinkTrial) -> None:
    """Rows with everything in them that formats stumble over, with up to 70,001 characters, and
    texts such as 007, which look like something else.

    Then comes a text that contains a NUL: the sink may refuse it with an error, but not cut it.
    """
    trial.run()
    trial.add(4, AWKWARD)
    trial.write([*MORE_TEXTS, LINE_ENDS, "\ufeffmark", *NO_NUMBERS])
    trial.arrive("with awkward text")
    if trial.sink.restarts:
        trial.offer(WITH_NUL)
        trial.arrive("with a NUL in a text")


@promise(
    "A null is still a null.",
    "`None` is no text: `str(None)` makes it one. Write it so that it cannot be taken for a word.",
)
def nulls(trial: SinkTrial) -> None:
    """A null is written between texts that look like one; with `types` of DOUBLE, NaN and both
    infinities, too."""
    trial.run()
    trial.write(["None", None, "null", "NULL", "\\N", *BEYOND])
    trial.arrive("with a null")


@promise(
    "An empty text is an empty text, and no null.",
    "Ask `is None`, not `if not value`; where a format has one sign for both, choose another one.",
)
def empty_text(trial: SinkTrial) -> None:
    """An empty text is written between others."""
    trial.run()
    trial.write(["before", "", "after"])
    trial.arrive("with an empty text")


@promise(
    "Equal rows are as many rows as were written.",
    "A row is no key: do not collect rows in a set, and recognise what was repeated by its batch.",
)
def equal_rows(trial: SinkTrial) -> None:
    """Each task writes the same text twice in a batch, and one task once in the next two."""
    trial.run()
    for count in (2 * WRITERS, 1, 1):
        trial.write(["equal"] * count, evenly=True)
    trial.arrive("with equal rows")


@promise(
    "What a row holds does not depend on the time zone of the machine that writes it.",
    "A `datetime` comes without a zone: it is the local time of the process that writes. Give it "
    "its zone (`value.astimezone(UTC)`) before you make a text or a number of it.",
    needs="python types",
)
def any_zone(trial: SinkTrial) -> None:
    """Processes that believe they are in Nepal, and others that believe they are in the Marquesas,
    write some rows; every column is compared."""
    trial.look_inside()
    for where in FAR_ZONES:
        with trial.far_zone(where):
            trial.works(when=f"in another time zone, {where}")


@promise(
    "A repeated batch has its effect once.",
    "After a crash Spark repeats a batch that the sink may have committed. Remember, together with "
    "the rows, which batch of which query is done, and skip it; or write where a repetition "
    "replaces.",
    needs="restarts",
    built="Give `commit`, and note `context.query` and `context.batch` in the same transaction as "
    "the rows; a batch that is noted is done.",
)
def repeated_batch(trial: SinkTrial) -> None:
    """Spark's note of the last batch is removed, as if the driver had died before it."""
    trial.works()
    _repeat(trial, "after the last batch was repeated")


@promise(
    "A reader sees nothing of a batch that failed.",
    "Stage in `write` what only `commit` publishes, and let `commit` publish just what its "
    "messages name. `abort` clears up, but does not always come.",
    needs="restarts once",
    built="Give `commit`, and let `flush` only prepare: what it returns is published there.",
)
def failed_batch(trial: SinkTrial) -> None:
    """A task dies after it handed on its rows, and others are done; one task repeats the batch."""
    with _failing(trial, 1) as before:
        check_once(before.rows, trial.read(), "after a failed batch")
    trial.compare("after one task has repeated what three had begun")


@promise(
    "Nothing of a batch that failed stays for ever: no file that nobody will use.",
    "`abort` removes what the messages name; what it does not hear of, a later `commit` may.",
    needs="restarts",
    built="Give `abort`: it gets the handles of the tasks that were done.",
)
def no_rubbish(trial: SinkTrial) -> None:
    """A batch fails and is repeated, two others follow; files of the failed attempt are looked for.

    They lie in the folder that the description was given, have not changed since, and were not
    there before. Of the task that failed `abort` hears nothing.
    """
    with _failing(trial) as before:
        after = trial.files()
    for _ in range(2):
        trial.works(when="after the failed batch was repeated")
    stayed = (after.items() - before.files.items()) & trial.files().items()
    left = sorted(file.name for file, _ in stayed if file not in before.files)
    if len(left) > 1:  # the others had ended
        raise Broken(f"{len(left)} files of a failed batch stay: {', '.join(left[:3])}")


@dataclass
class Before:
    """What was there before a batch failed."""

    rows: list[Row]
    files: dict[Path, float]


@contextlib.contextmanager
def _failing(trial: SinkTrial, writers: int = WRITERS) -> Iterator[Before]:
    """Within it a batch has failed, and what was there before is told.

    Then it is repeated, by this many tasks.
    """
    trial.works()
    trial.stop()
    told = trial.plan.fails = trial.folder / "fails"
    told.mkdir()
    before = Before(trial.read(), trial.files())
    trial.add(evenly=True)  # each of the others has written something
    trial.run()
    trial.wait(trial.all_but_one_ended, trial.seconds)
    (told / NOW).touch()
    trial.failed()
    yield before
    shutil.rmtree(told)
    trial.run(writers)
    trial.read_all(trial.done)
    trial.stop()
    trial.plan.fails = None


@promise(
    "A new query adds to what an earlier one has written.",
    "A new query counts its batches from 0 again: remember a batch by its query's id and its own, "
    "and beside those of other queries. Note that `if batch` is false for batch 0.",
)
def new_query(trial: SinkTrial) -> None:
    """A query with a new checkpoint, at the path of the earlier one's, writes to the same sink and
    repeats its batch 0; then the earlier query repeats its last batch."""
    trial.ensure_worked()
    trial.stop()
    earlier, place = (trial.plan, trial.feed), trial.plan.checkpoint
    kept = place.rename(trial.folder / "checkpoint of the earlier query")
    trial.new_query()
    trial.plan.checkpoint = place
    trial.works(when="with a new query whose checkpoint has the path of the earlier one's")
    if trial.sink.restarts:
        _repeat(trial, "after the new query has repeated its batch 0")
        trial.stop()
        place.rename(trial.folder / "checkpoint of the new query")
        kept.rename(place)
        trial.plan, trial.feed = earlier
        _repeat(trial, "after the earlier query has repeated its last batch")


def _repeat(trial: SinkTrial, when: str) -> None:
    """Remove Spark's note of the last batch, as if the driver had died before it."""
    trial.stop()
    forget_last_commit(trial.plan.checkpoint)
    trial.run()
    trial.arrive(when)


@promise(
    "Two queries may write at the same time, or the second one is refused.",
    "Give drafts, stages and notes names that two queries do not share: the query's id is in "
    "`TaskContext`. Or let the second one fail, with an error, before it writes.",
    built="Give drafts, stages and notes names that two queries do not share: `context.query` is "
    "the query's id. Or let the second one fail, with an error, before it writes.",
)
def two_queries(trial: SinkTrial) -> None:
    """One writes three batches, and the other one as long as that takes.

    Of a query that is refused a reader may see whole batches only.
    """
    trial.works()
    other = trial.aside("second")
    batches = [other.add(f"second {part}", BATCH) for part in range(3)]
    query = trial.started(lambda: other.plan.start(trial.spark, drain=True))
    for batch in range(BESIDE):
        trial.add()
        if batch >= 2 and not (query and query.isActive):
            break
        time.sleep(0.5)
    refused = trial.refused(query)
    trial.read_all(lambda: True)
    seen = set(trial.read())
    trial.written += [row for rows in batches if not refused or seen & set(rows) for row in rows]
    trial.arrive("with two queries at once")


@promise(
    "The number of tasks that write may change.",
    "Take as many messages as come, in `commit`; `None` among them is no message.",
    needs="restarts",
)
def other_writers(trial: SinkTrial) -> None:
    """The query is restarted with twelve tasks that write, then with one."""
    for writers in (12, 1):  # a number of two digits
        trial.run(writers)
        trial.add(evenly=True)  # or, in some batches, the last task would have no rows
        trial.arrive(f"with {writers} tasks that write")


@promise(
    "The output mode `complete` is refused, or each batch replaces all that was written.",
    "Spark tells it as `overwrite` in `streamWriter(schema, overwrite)`, and in `writer`: raise "
    "`ValueError`, or replace, in `commit` and in one step.",
    built="Where `context.overwrite` is true, replace in `commit` and in one step; or leave out "
    "`.also_overwrite()`, and the builder refuses the mode.",
)
def complete_mode(trial: SinkTrial) -> None:
    """A query in this mode writes two batches, the second of which has the first one's rows too.

    Then a batch is written with `df.write`, if there is that, in the mode `overwrite`.
    """
    trial.ensure_worked()
    trial.stop()
    other = trial.aside("complete")
    plan = replace(other.plan, mode="complete")
    batches = [other.add(f"complete {part}", BATCH) for part in range(2)]
    with trial.setting("spark.sql.shuffle.partitions", 2):
        query = trial.started(lambda: plan.start(trial.spark, drain=True))
        refused = trial.refused(query)
    if not refused:
        trial.written = [row for rows in batches for row in rows]
    trial.settle("after the output mode `complete`")
    if trial.sink.batch:
        with contextlib.suppress(PySparkException):  # it is refused
            other.plan.batch(trial.spark, other.feed.folder, "overwrite")
            trial.written = [row for rows in batches for row in rows]
        trial.settle("after df.write in the mode `overwrite`")


@promise(
    "df.write adds the rows that df.writeStream would add.",
    "The writer of batches writes all rows of all tasks, and publishes them in `commit`.",
    needs="batch",
)
def batch_write(trial: SinkTrial) -> None:
    """Batches of 1,013 rows and of 37 are written without a stream, in the mode `append`; the small
    one twice, if the sink claims `equal_rows`."""
    trial.stop()
    for count, times in ((MANY, 1), (BATCH, 1 if "equal_rows" in trial.sink.not_claimed else 2)):
        other = trial.aside(f"batch of {count}")
        rows = other.add(f"{count} of", count)
        for _ in range(times):
            trial.written += rows
            with trial.blamed("df.write"):
                other.plan.batch(trial.spark, other.feed.folder)
        trial.settle("after df.write")


@promise(
    "A crash at any line of `commit` neither loses nor doubles a row.",
    "The rows and the note that this batch is done must appear in one step; or the note must say "
    "beforehand what is going to be published, so that the repeated commit can finish it.",
    needs="restarts python",
)
def dies_in_commit(trial: SinkTrial) -> None:
    """Its process ends before one line of `commit` after the other; the batch is repeated."""
    claimed = trial.sink.once and "whole_batches" not in trial.sink.not_claimed
    must_survive(trial, "commit", "dies", CRASHES, trial.check_whole if claimed else None)


@promise(
    "An error in `commit` ends the query: a batch is not done because it failed.",
    "Raise what you catch in `commit` or `write`, or do it again until it is done: Spark takes one "
    "that returns for one that has worked, and the batch does not come again.",
    needs="restarts python",
    built="Raise what you catch, or do it again until it is done: Spark takes a function that "
    "returns for one that has worked, and the batch does not come again.",
)
def errors_told(trial: SinkTrial) -> None:
    """An `OSError` is raised inside `commit`, before some of its lines, then inside `write`; all
    rows must be there."""
    try:
        must_survive(trial, "commit", "raises", ERRORS)
    except NotTried:  # then `write` alone is tried
        must_survive(trial, "write", "raises", ERRORS)
        return
    with contextlib.suppress(NotTried):
        must_survive(trial, "write", "raises", ERRORS)


@promise(
    "An unknown option is refused, with its name.",
    "Compare the names of `self.options` with those that you know (Spark makes them small "
    "letters), and raise `ValueError` in `streamWriter`: a typing error in an option otherwise "
    "becomes a silent default.",
    built=DECLARED,
    advice=True,
)
def unknown_option(trial: SinkTrial) -> None:
    """A query is started with an option that nobody can know."""
    trial.stop()
    other = trial.aside("refused")
    other.add("nobody should see this", 1)
    plan = replace(other.plan, options={**other.plan.options, UNKNOWN: "1"})
    must_refuse_unknown(lambda: trial.drain(lambda: plan.start(trial.spark, drain=True)))


@promise(
    "No process stays when the query has stopped.",
    "End what `write` or `commit` started before they return; Spark's workers live on.",
    built="End in `destroy` what `create` started, and what another function started before it "
    "returns; Spark's workers live on.",
)
def nothing_left(trial: SinkTrial) -> None:
    """The processes under Spark's JVM before all queries and after them are compared."""
    trial.ensure_worked()
    must_leave_no_process(trial)


@promise(
    "Nothing is lost or doubled by `kill -9` of the driver.",
    "The rows and the note that this batch is done must appear in one step, or the note must say "
    "beforehand what is going to be published, so that the next commit can finish it.",
    needs="restarts",
)
def killed(trial: SinkTrial) -> None:
    """The query runs in two drivers of its own, which die while batches are written.

    In the second one, what counts from Spark's start has the values that it had in the first.
    """
    trial.killed(trial.plan, lambda driver: _write_some(trial, driver), times=max(KILLS, 2))
    trial.works(when="after `kill -9`")


def _write_some(trial: SinkTrial, driver: Driver) -> None:
    """A first batch is waited for; then some more are on their way."""

    def more(before: int = len(trial.read())) -> bool:
        driver.check()
        return len(trial.read()) > before

    for _ in range(6):
        trial.add()
    wait_until(more, trial.seconds, "the first batch in a driver of its own")


SINK_PROMISES: list[Promise[SinkTrial]] = [
    every_row_once,
    whole_batches,
    never_taken_back,
    empty_batch,
    awkward_text,
    nulls,
    empty_text,
    equal_rows,
    any_zone,
    repeated_batch,
    failed_batch,
    no_rubbish,
    dies_in_commit,
    errors_told,
    new_query,
    two_queries,
    other_writers,
    complete_mode,
    batch_write,
    steady,
    unknown_option,
    nothing_left,
    nothing_open,
    killed,
    server_restarted,
    server_away,
    server_slow,
]
