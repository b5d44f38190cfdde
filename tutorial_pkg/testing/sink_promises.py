"""What a streaming sink promises: each function tries one promise, and raises `Broken`."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tutorial_pkg.core.query_process import wait_until
from tutorial_pkg.testing.driver import Driver
from tutorial_pkg.testing.promise import Broken, Promise, check_once, promise
from tutorial_pkg.testing.queries import forget_last_commit
from tutorial_pkg.testing.sink_trial import BATCH, MANY, Feed, Onlooker, SinkTrial
from tutorial_pkg.testing.trial import KILLS, SECONDS

UNKNOWN = "noSuchOption"
AWKWARD = " é 😀 \"q\" 'a', ; \t \\ \\n \r\n\n| <b>&amp; " + "x" * 10_000


@promise(
    "Every row is there once, also those written after a restart.",
    "`write` must consume its whole iterator, and `commit` publish what every message names.",
)
def every_row_once(trial: SinkTrial) -> None:
    """A small batch, one of 1,000 rows, and another small one after a restart are written."""
    trial.run()
    for count in (BATCH, MANY):
        trial.add(count)
    trial.arrive("while the query ran")
    trial.stop()
    trial.run()
    trial.add()
    trial.arrive("after a restart")


@promise(
    "A repeated batch has its effect once.",
    "After a crash Spark repeats a batch that the sink may have committed. Remember, together with "
    "the rows, which batch of which query is done, and skip it; or write where a repetition "
    "replaces.",
)
def repeated_batch(trial: SinkTrial) -> None:
    """Spark's note of the last batch is removed, as if the driver had died before it."""
    trial.run()
    trial.add()
    trial.arrive("while the query ran")
    trial.stop()
    forget_last_commit(trial.plan.checkpoint)
    trial.run()
    trial.arrive("after the last batch was repeated")


@promise(
    "A batch that fails leaves nothing behind.",
    "Stage in `write` what only `commit` publishes, and let `commit` publish just what its "
    "messages name. `abort` clears up, but does not always come.",
)
def failed_batch(trial: SinkTrial) -> None:
    """A task dies after it handed on its rows, and others are done; the batch is repeated."""
    # One more than run at once: when the last one begins, another one has ended.
    writers = trial.spark.sparkContext.defaultParallelism + 1
    trial.run()
    trial.add()
    trial.arrive("while the query ran")
    trial.stop()
    told = trial.plan.fails = trial.folder / "fails"
    told.touch()
    before = list(trial.sink.read())
    trial.add()
    trial.run(writers)
    trial.failed()
    check_once(before, trial.sink.read(), "after a failed batch")
    told.unlink()
    trial.run(writers)
    trial.arrive("after the failed batch was repeated")
    trial.stop()
    trial.plan.fails = None


@promise(
    "A reader sees a batch whole or not at all.",
    "Publish in one step that cannot be seen half done: one transaction, one rename, one line in "
    "an index that readers go by.",
)
def whole_batches(trial: SinkTrial) -> None:
    """A reader looks again and again while three batches are written."""
    trial.run()
    with Onlooker(trial) as onlooker:
        batches = [frozenset(trial.add()) for _ in range(3)]
        trial.settle(trial.complete)
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
        trial.settle(trial.complete)
    _raise_error_of(onlooker)
    for before, after in pairwise(onlooker.views):
        if before - after:
            raise Broken(f"a reader saw {len(before - after)} rows that were gone a moment later")


def _raise_error_of(onlooker: Onlooker) -> None:
    if onlooker.error:
        raise Broken(f"a reader failed while the query wrote: {onlooker.error!r}")


@promise(
    "A new query adds to what an earlier one has written.",
    "A new query counts its batches from 0 again: remember a batch by its query's id and its own.",
)
def new_query(trial: SinkTrial) -> None:
    """A query with a new checkpoint writes to the sink that another one has written to."""
    for _ in range(2):
        trial.new_query()
        trial.run()
        trial.add()
        trial.arrive("with a new query")


@promise(
    "The number of tasks that write may change.",
    "Take as many messages as come, in `commit`; `None` among them is no message.",
)
def other_writers(trial: SinkTrial) -> None:
    """The query is restarted with five tasks that write, then with one."""
    for writers in (5, 1):
        trial.run(writers)
        trial.add()
        trial.arrive(f"with {writers} tasks that write")


@promise(
    "A batch without rows is written like any other.",
    "There may be no row, no message, or a task without rows: begin with nothing, not with the "
    "first row.",
)
def empty_batch(trial: SinkTrial) -> None:
    """An empty batch comes between two others."""
    trial.run()
    for count in (BATCH, 0, BATCH):
        trial.add(count)
        trial.arrive("with an empty batch")


@promise(
    "Text comes back as it was: quotes, line ends, backslashes, any letter, any length.",
    "Escape what separates rows and columns in your format, and write UTF-8 whatever the locale.",
)
def awkward_text(trial: SinkTrial) -> None:
    """Rows with everything in them that formats stumble over, and with 10,000 characters."""
    trial.run()
    trial.add(4, AWKWARD)
    trial.arrive("with awkward text")


@promise(
    "An unknown option is refused, with its name.",
    "Compare the names of `self.options` with those that you know (Spark makes them small "
    "letters), and raise `ValueError` in `streamWriter`: a typing error in an option otherwise "
    "becomes a silent default.",
)
def unknown_option(trial: SinkTrial) -> None:
    """A query is started with an option that nobody can know."""
    trial.stop()
    refused = Feed(trial.folder / "refused")
    refused.add(["a row that nobody should see"])
    plan = replace(
        trial.plan,
        options={**trial.plan.options, UNKNOWN: "1"},
        checkpoint=trial.folder / "refused-checkpoint",
        batches=refused.folder,
    )
    try:
        trial.drain(lambda: plan.start(trial.spark, drain=True))
    except Broken as error:
        if UNKNOWN.lower() not in f"{error}{error.__cause__}".lower():
            raise Broken(f"the error does not name the option: {error}") from None
    else:
        raise Broken(f"a query with the option `{UNKNOWN}` ran")


@promise(
    "No process stays when the query has stopped.",
    "End what `write` or `commit` started before they return; Spark's workers live on.",
)
def nothing_left(trial: SinkTrial) -> None:
    """The processes under Spark's JVM before the query and after it are compared."""
    trial.run()
    trial.add()
    trial.arrive("while the query ran")
    trial.stop()
    if trial.left_behind:
        raise Broken(f"still there after `stop()`: {', '.join(trial.left_behind)}")


@promise(
    "Nothing is lost or doubled by `kill -9` of the driver.",
    "The rows and the note that this batch is done must appear in one step, or the note must say "
    "beforehand what is going to be published, so that the next commit can finish it.",
)
def killed(trial: SinkTrial) -> None:
    """The query runs in drivers of its own, which die while batches are written."""
    for _ in range(KILLS):
        trial.killed(trial.plan, lambda driver: _write_some(trial, driver))
    trial.run()
    trial.add()
    trial.arrive("after `kill -9`")


def _write_some(trial: SinkTrial, driver: Driver) -> None:
    """A first batch is waited for; then some more are on their way."""

    def more(before: int = len(trial.sink.read())) -> bool:
        driver.check()
        return len(trial.sink.read()) > before

    for _ in range(6):
        trial.add()
    wait_until(more, SECONDS, "the first batch in a driver of its own")


SINK_PROMISES: list[Promise[SinkTrial]] = [
    every_row_once,
    repeated_batch,
    failed_batch,
    whole_batches,
    never_taken_back,
    new_query,
    other_writers,
    empty_batch,
    awkward_text,
    unknown_option,
    nothing_left,
    killed,
]
