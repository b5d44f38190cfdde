"""The promises of a streaming sink: each function tries one, and raises `Broken`."""

from __future__ import annotations

import contextlib
import shutil
from itertools import pairwise

from spark_connector_tests.driver import Driver
from spark_connector_tests.promise import Broken, NotTried, Promise, promise
from spark_connector_tests.queries import NOW, WRITERS, forget_last_commit
from spark_connector_tests.query_process import wait_until
from spark_connector_tests.rows import check_once
from spark_connector_tests.shared_promises import must_survive, server_down
from spark_connector_tests.sink_trial import (
    BATCH,
    BEYOND,
    LARGE,
    MANY,
    Batches,
    Row,
    SinkTrial,
    onlooker,
)
from spark_connector_tests.trial import FAR_ZONES, KILLS, QUIET

# How many rows Spark passes on at once: some tasks get several record batches.
BUNDLE = ("spark.sql.execution.arrow.maxRecordsPerBatch", 101)

# Values that formats stumble over: the batches to write, and the remedy.
HARD_VALUES: dict[str, tuple[list[list[str | None]], str]] = {
    "awkward_text": (
        [
            [" é 😀 \"q\" 'a', ; \t \\ \\n \r\n\n| <b>&amp; " + "x" * 10_000],
            ["  blanks  ", "\ttabs\t", "a line\r\n", "\n", "\ufeffmark", "x" * 70_001],
            ["e\u0301 \uff21 \u0130 STRASSE Straße", "100%25 %s {0} {{a}} $HOME ${a} :a ? @a"],
            ["a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"],  # line ends only to `splitlines`
            ["007", "1.50", "1e3", "NA", "TRUE"],  # text that looks like a number
        ],
        "Escape what separates rows and columns in your format, and write UTF-8 in any "
        "locale. Make sure that nothing takes a text for a number, as a column `STRING` of SQLite "
        "does.",
    ),
    "nulls": (
        [["None", None, "null", "NULL", "\\N", *BEYOND]],
        "Write a null so that it can't be mistaken for a word: `str(None)` is a text.",
    ),
    "empty_text": (
        [["before", "", "after"]],
        "Test with `is None`, not with `if not value`: an empty text is not a null.",
    ),
    "equal_rows": (
        [["equal"] * (2 * WRITERS), ["equal"], ["equal"]],
        "A row is not a key: collect rows in a list. Recognize a repeated batch by its number.",
    ),
}


@promise(
    "Every row is written once, also after a restart.",
    "`write` must consume its whole iterator and write the last buffer, too. `commit` must publish "
    "what all messages name, even if some tasks, or all, have no rows.",
)
def every_row_once(trial: SinkTrial) -> None:
    """Three tasks write batches with 37, 1,013, 0, 1,013, 1 and 36 rows, and one task 5,003; a
    record batch has 101 rows at most. One more batch follows a restart."""
    with trial.setting(*BUNDLE):
        try:
            trial.works()
        except Broken as broken:
            broken.nothing_works = True
            raise
        for count in (MANY, 0, MANY, 1, BATCH - 1):
            trial.more(count)
        trial.arrive("while the query ran")
        if trial.sink.restarts:
            trial.run(writers=1)
            trial.more(LARGE)
            trial.arrive("while one task wrote")
    if trial.sink.restarts:
        trial.works(when="after a restart")


@promise(
    "Readers see a batch as a whole or not at all.",
    "Publish a batch in one step: one transaction, one rename, or one line in an index that "
    "readers use.",
    needs="once",
)
def whole_batches(trial: SinkTrial) -> None:
    """A reader reads again and again while three batches are written."""
    batches, views = _watched(trial)
    for view in views:
        for batch in batches:
            if view & batch and not batch <= view:
                raise Broken(
                    f"a reader saw {len(view & batch)} of the {len(batch)} rows of a batch"
                )


@promise(
    "Rows that readers have seen never disappear.",
    "Only add. If you rewrite a file, replace the old one in one step (`os.replace`), after the "
    "new one is complete.",
)
def no_retraction(trial: SinkTrial) -> None:
    """A reader reads again and again while three batches are written."""
    _, views = _watched(trial)
    for before, after in pairwise(views):
        if before - after:
            raise Broken(f"a reader saw {len(before - after)} rows that then disappeared")


def _watched(trial: SinkTrial) -> tuple[list[frozenset[Row]], list[frozenset[Row]]]:
    """Write three batches, and return them and what a reader saw meanwhile."""
    trial.run()
    with onlooker(trial.read) as views:
        batches = [frozenset(trial.more()) for _ in range(3)]
        trial.read_all(trial.done)
    return batches, views


@promise(
    "Values come back unchanged: any text, nulls, equal rows, times in any time zone.",
    "Compare what you get with what you write, value by value. A `datetime` comes without a zone, "
    "in the local time of the process: call `value.astimezone(UTC)` before you convert it.",
)
def values(trial: SinkTrial) -> str:
    """Texts with quotes, newlines, other scripts or 70,001 characters; nulls, empty texts and equal
    rows. With `types`, a Python sink also writes in processes with the time zones of Nepal and of
    the Marquesas."""
    trial.run()
    left_out = [name for name in HARD_VALUES if name in trial.sink.not_claimed]
    for name in HARD_VALUES:
        if name not in left_out:
            _write_hard(trial, name)
    if trial.sink.types and trial.sink.python and trial.sink.restarts:
        for where in FAR_ZONES:
            with trial.far_zone(where):
                trial.works(when=f"with workers {where}")
    return f"without {', '.join(left_out)}" if left_out else ""


def _write_hard(trial: SinkTrial, name: str) -> None:
    batches, remedy = HARD_VALUES[name]
    try:
        for batch in batches:
            trial.write(batch)
        trial.arrive(f"with {name}")
    except Broken as broken:
        broken.remedy = broken.remedy or remedy
        broken.rows_missing = False  # the values are the cause
        raise


@promise(
    "A repeated batch is written once.",
    "After a crash Spark repeats a batch that you may have committed. Record the query's id and "
    "the batch's number together with the rows, and skip a batch that is recorded; or write so "
    "that a repetition replaces the first attempt.",
    needs="restarts",
)
def repeated_batch(trial: SinkTrial) -> None:
    """Spark's record of the last batch is removed, as if the driver had died before writing it."""
    trial.works()
    _repeat(trial, "after the last batch was repeated")


@promise(
    "Readers see nothing of a batch that failed.",
    "Stage in `write` what only `commit` publishes, and let `commit` publish only what its "
    "messages name. `abort` cleans up, but isn't always called.",
    needs="restarts once",
)
def failed_batch(trial: SinkTrial) -> None:
    """One task dies after its last row, when the others are done; one task repeats the batch."""
    trial.works()
    trial.stop()
    fails = trial.batches.plan.fails = trial.folder / "fails"
    fails.mkdir()
    before = trial.read()
    trial.more()
    trial.run()
    trial.wait(trial.all_but_one_ended, trial.seconds)
    (fails / NOW).touch()
    trial.failed()
    check_once(before, trial.read(), "after a failed batch")
    shutil.rmtree(fails)
    trial.run(writers=1)
    trial.arrive("after one task repeated a batch of three")
    trial.stop()
    trial.batches.plan.fails = None


@promise(
    "A crash at any point of `commit` loses and duplicates no row.",
    "Publish the rows and the record of the batch in one step. Or record beforehand what will be "
    "published, so that the repeated commit can finish it.",
    needs="restarts python",
)
def crash_in_commit(trial: SinkTrial) -> None:
    """The process ends at up to six calls in `commit` that open, rename or remove files, or
    connect; then the batch is repeated."""
    claimed = trial.sink.once and "whole_batches" not in trial.sink.not_claimed
    must_survive(trial, "commit", "dies", trial.check_whole if claimed else None)


@promise(
    "A write error fails the query; the batch is not taken for done.",
    "Raise what you catch in `commit` or `write`, or retry until it succeeds. If they return, "
    "Spark takes the batch for done and doesn't repeat it.",
    needs="restarts python",
)
def write_errors_surface(trial: SinkTrial) -> None:
    """In `commit`, then in `write`, up to six calls that open, rename or remove files, or connect,
    raise an `OSError`."""
    tried = []
    for method in ("commit", "write"):
        with contextlib.suppress(NotTried):
            must_survive(trial, method, "raises")
            tried.append(method)
    if not tried:
        raise NotTried("`commit` and `write` open no file and no connection in Python")


@promise(
    "A new query adds to what an earlier one has written.",
    "A new query counts its batches from 0 again. Identify a batch by its query's id and its "
    "number, and keep the records of other queries. Note that `if batch` is false for batch 0.",
)
def new_query(trial: SinkTrial) -> None:
    """A query with a new checkpoint, at the path of the earlier one's, writes to the same sink, and
    repeats its batch 0. Then the earlier query repeats its last batch."""
    trial.works()
    trial.stop()
    earlier, place = trial.batches, trial.batches.plan.checkpoint
    kept = place.rename(trial.folder / "checkpoint of the earlier query")
    trial.use(Batches(trial, "new"))
    trial.batches.plan.checkpoint = place
    trial.works(when="with a new query at the path of the earlier checkpoint")
    if trial.sink.restarts:
        _repeat(trial, "after the new query repeated its batch 0")
        trial.stop()
        place.rename(trial.folder / "checkpoint of the new query")
        kept.rename(place)
        trial.use(earlier)
        _repeat(trial, "after the earlier query repeated its last batch")


def _repeat(trial: SinkTrial, when: str) -> None:
    """Have Spark repeat the last batch."""
    trial.stop()
    forget_last_commit(trial.batches.plan.checkpoint)
    trial.run()
    trial.arrive(when)


def _texts(text: str, count: int = BATCH) -> list[str]:
    return [f"{text} {number}" for number in range(count)]


@promise(
    "Two queries can write at the same time, or the second one is refused.",
    "Put the query's id (it is in `TaskContext`) into the names of drafts and records, so that two "
    "queries share none. Or let the second query fail with an error before it writes.",
)
def two_queries(trial: SinkTrial) -> None:
    """Two queries write three batches each. If the second one is refused, readers see only whole
    batches of it."""
    trial.works()
    other = Batches(trial, "second")
    batches = [other.add(_texts(f"second {part}")) for part in range(3)]
    with trial.beside(lambda: other.plan.start(trial.spark)) as outlives:
        for _ in batches:
            trial.more()
        accepted = outlives(lambda: True)
    trial.read_all(lambda: True)
    seen = set(trial.read())
    trial.written += [row for rows in batches if accepted or seen & set(rows) for row in rows]
    trial.arrive("with two queries at once")


@promise(
    "The number of writing tasks may change.",
    "Accept any number of messages in `commit`. `None` among them is not a message.",
    needs="restarts",
)
def other_writers(trial: SinkTrial) -> None:
    """The query is restarted with twelve writing tasks, then with one."""
    for writers in (12, 1):  # a number with two digits
        trial.run(writers)
        trial.more()
        trial.arrive(f"with {writers} writing tasks")


@promise(
    "df.write adds the rows that df.writeStream would add.",
    "The batch writer writes all rows of all tasks, and publishes them in `commit`.",
    needs="batch",
)
def batch_write(trial: SinkTrial) -> None:
    """1,013 rows and then 37 are written without a stream, in the mode `append`; the 37 twice, if
    the sink claims `equal_rows`."""
    trial.stop()
    for count, times in ((MANY, 1), (BATCH, 1 if "equal_rows" in trial.sink.not_claimed else 2)):
        other = Batches(trial, f"of {count}")
        rows = other.add(_texts(f"{count} of", count))
        for _ in range(times):
            trial.written += rows
            with trial.blamed("df.write"):
                other.plan.batch(trial.spark)
        trial.wait(trial.done, QUIET)
        trial.compare("after df.write")


@promise(
    "`kill -9` of the driver loses and duplicates no row.",
    "Publish the rows and the record of the batch in one step. Or record beforehand what will be "
    "published, so that the next commit can finish it.",
    needs="restarts",
)
def killed(trial: SinkTrial) -> None:
    """The query runs in two drivers, which are killed while batches are written. In the second one,
    Spark's counters have the same values as in the first."""
    trial.killed(lambda driver: _write_some(trial, driver), times=max(KILLS, 2))
    trial.works(when="after `kill -9`")


def _write_some(trial: SinkTrial, driver: Driver) -> None:
    """Wait for a first batch; more batches are under way then."""

    def more(before: int = len(trial.read())) -> bool:
        driver.check()
        return len(trial.read()) > before

    for _ in range(6):
        trial.more()
    wait_until(more, trial.seconds, "the first batch in a driver")


SINK_PROMISES: list[Promise] = [
    every_row_once,
    whole_batches,
    no_retraction,
    values,
    repeated_batch,
    failed_batch,
    crash_in_commit,
    write_errors_surface,
    new_query,
    two_queries,
    other_writers,
    batch_write,
    killed,
    server_down,
]
