"""What a streaming source promises: each function tries one promise, and raises `Broken`."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from tutorial_pkg.testing.described import LIMIT
from tutorial_pkg.testing.promise import Broken, Promise, promise
from tutorial_pkg.testing.queries import offsets
from tutorial_pkg.testing.source_trial import MANY, PORTION, SourceTrial

UNKNOWN = "noSuchOption"


@promise(
    "Every row comes once.",
    "`read` yields what is from `start` on and before `end`; the next batch begins where this one "
    "ended. Look at how `latestOffset` and `partitions` treat the last row.",
)
def every_row_once(trial: SourceTrial) -> None:
    """A small portion of rows, 1,000 at once, and another small one are fed to a running query."""
    trial.run()
    for count in (PORTION, MANY, PORTION):
        trial.feed(count)
        trial.arrive("while the query ran")


@promise(
    "A batch can be read several times, and half-way: it has the same rows.",
    "`read` takes all it needs from its partition and changes nothing: no position in the reader, "
    "no cache that is used up, nothing deleted or acknowledged before `commit`.",
)
def same_rows_again(trial: SourceTrial) -> None:
    """Each batch is read once up to its first row and twice in whole."""
    trial.run()
    trial.plan.rereads = True
    trial.feed()
    trial.read_on()
    trial.plan.rereads = False
    for first, second in trial.plan.reread:
        if Counter(first) != Counter(second):
            raise Broken(f"a batch had {len(first)} rows, and {len(second)} when read again")
    trial.compare("while batches were read three times")


@promise(
    "A restarted query goes on where it stopped, twice in a row.",
    "Spark keeps the offset: `latestOffset` and `partitions` must begin at the `start` they are "
    "given. After a restart `initialOffset` is not called, and `self` is new.",
)
def restart(trial: SourceTrial) -> None:
    """The query is stopped and started twice; rows are fed before, while it is down, and after."""
    trial.run()
    for turn in ("first", "second"):
        trial.stop()
        if trial.source.feed_when_stopped:
            trial.feed()
        trial.run()
        trial.feed()
        trial.arrive(f"after the {turn} restart")


@promise(
    "A batch that failed in the sink is repeated with the same rows.",
    "Plan only what you can give again: `read` must stop at `end`, even if there is more by then, "
    "and nothing may be forgotten before `commit` says so.",
)
def repeated_batch(trial: SourceTrial) -> None:
    """A batch's sink fails; more rows are fed; the query is started again."""
    trial.feed_failing()
    failed = max(trial.ledger.attempts())
    if trial.source.feed and trial.source.feed_when_stopped:
        trial.feed()
    trial.run()
    trial.feed()
    trial.arrive("after a batch was repeated")
    first, *_, last = trial.ledger.attempts()[failed]
    if Counter(first) != Counter(last):
        raise Broken(f"batch {failed} had {len(first)} rows, and {len(last)} when repeated")


@promise(
    "The offset never goes back.",
    "Return the larger one of `start` and what you know. Spark accepts a smaller offset, and reads "
    "from there again.",
)
def offset_never_back(trial: SourceTrial) -> None:
    """Rows are fed, with pauses; then all offsets in the checkpoint are compared."""
    trial.run()
    for _ in range(2):
        trial.feed()
        trial.arrive("while the query ran")
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
    needs="other_parallelism",
)
def other_parallelism(trial: SourceTrial) -> None:
    """The query runs, is restarted with another parallelism, and goes back to the first one."""
    for more in (None, trial.source.other_parallelism, None):
        trial.run(more)
        trial.feed()
        trial.arrive(f"with {more or 'the first parallelism'}")


@promise(
    "An unknown option is refused, with its name.",
    "Compare the names of `self.options` with those that you know (Spark makes them small "
    "letters), and raise `ValueError` in `schema`, for Spark 4.3 hides what `streamReader` raises "
    "behind an UnboundLocalError. A typing error in an option otherwise becomes a silent default.",
)
def unknown_option(trial: SourceTrial) -> None:
    """A query is started with an option that nobody can know."""
    trial.stop()
    try:
        trial.run({UNKNOWN: 1})
        trial.read_on()
    except Broken as error:
        if UNKNOWN.lower() not in f"{error}{error.__cause__}".lower():
            raise Broken(f"the error does not name the option: {error}") from None
    else:
        raise Broken(f"a query with the option `{UNKNOWN}` ran")


@promise(
    "No process stays when the query has stopped.",
    "Close what you opened in the reader's `stop`, and make threads daemons and children end with "
    "their parent: Spark ends the reader's process without asking twice.",
)
def nothing_left(trial: SourceTrial) -> None:
    """The processes under Spark's JVM before the query and after it are compared."""
    trial.run()
    trial.feed()
    trial.arrive("while the query ran")
    trial.stop()
    if trial.left_behind:
        raise Broken(f"still there after `stop()`: {', '.join(trial.left_behind)}")


SOURCE_PROMISES: list[Promise[SourceTrial]] = [
    every_row_once,
    same_rows_again,
    restart,
    repeated_batch,
    offset_never_back,
    limit,
    available_now,
    other_parallelism,
    unknown_option,
    nothing_left,
]
