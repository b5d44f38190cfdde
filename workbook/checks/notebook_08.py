"""Checks of notebook 08."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from workbook.checks.trial import (
    Renamed,
    breaks_off,
    broken_off,
    renames,
    scratch,
    texts,
)
from workbook.checks.verdict import Case, Wrong, compare, exercise, told

Answer = Callable[..., Any]
AGAIN = ["e", "", " d ", "e"]  # nobody is to sort, strip or count them
READERS_SEE = "batch-*.csv"

# ---- Exercise 1: a batch as a file ---------------------------------------------------------------


@exercise("def write_batch(folder, batch_id, lines)")
def check_08_1(answer: Answer) -> str:
    """Does `answer` write each batch into one file, once, and all of it or nothing?"""
    with scratch() as folder:
        _batches(answer, folder)
        _interrupted(answer, folder)
    return "A repeated batch replaces its file, and nobody sees half of one."


def _batches(answer: Answer, folder: Path) -> None:
    """Two batches, which are repeated with other lines: were their files replaced?"""
    for batch, lines in ((0, ["a", "b"]), (1, ["c"]), (0, ["d", "e"]), (1, AGAIN)):
        before = _visible(folder).get(f"batch-{batch}.csv", "")
        with renames(folder, READERS_SEE) as renamed:
            answer(folder, batch, iter(lines))
        _compare_names(folder)
        _compare_lines(folder, batch, lines, before)
    _look_at_rename(folder, renamed, _text(AGAIN))


def _compare_names(folder: Path) -> None:
    strange = sorted(set(_visible(folder)) - {"batch-0.csv", "batch-1.csv"})
    if strange or not _visible(folder):
        names = ", ".join(strange or sorted(file.name for file in folder.iterdir())) or "no file"
        raise Wrong(f"batch-0.csv and batch-1.csv are wanted, found {names}: use the batch id.")


def _compare_lines(folder: Path, batch: int, lines: list[str], before: str) -> None:
    found, wanted = _visible(folder).get(f"batch-{batch}.csv"), _text(lines)
    if before and found == before + wanted:
        raise Wrong("The repeated batch was appended: open its file with 'w', not with 'a'.")
    if before and found == before:
        raise Wrong("A repeated batch replaces its file; yours leaves the first one there.")
    if found != wanted:
        once = " Lines can be read only once." if wanted.endswith(found or "") else ""
        raise Wrong(
            "The lines belong in the file as they come, each with a newline, the last one too: "
            f"{wanted!r} became {found!r}.{once}"
        )


def _look_at_rename(folder: Path, renamed: list[Renamed], text: str) -> None:
    """What may a reader have seen, although the file was right in the end?"""
    drafts = [draft for draft in renamed if draft.target.name == "batch-1.csv"]
    if not drafts:
        raise Wrong("Readers may look while it writes: write under another name, then rename.")
    draft = drafts[-1]
    if "batch-1.csv" not in draft.visible:
        raise Wrong("batch-1.csv was deleted before its repetition was there: rename replaces it.")
    if not {*draft.visible} <= {"batch-0.csv", "batch-1.csv"}:
        raise Wrong(f"Readers saw {draft.file.name}, too: drafts must not match {READERS_SEE}.")
    if not draft.file.resolve().is_relative_to(folder.resolve()):
        raise Wrong(
            f"The draft lies in {draft.file.parent}: a rename is one step only within a file "
            "system, and elsewhere a copy. Write the draft into `folder`."
        )
    if draft.text != text:
        raise Wrong("The draft was renamed before it was closed: its lines were in the buffer.")


def _interrupted(answer: Answer, folder: Path) -> None:
    """Batches that break off: a repeated one and a new one, which is then repeated.

    Finally batch 1 comes again without lines, and batch 10 must stay.
    """
    before = _visible(folder)
    for batch in (1, 10):
        name = f"batch-{batch}.csv"
        if not breaks_off(answer, folder, batch, broken_off(["half of a batch"])):
            raise Wrong("It swallowed an OSError: let it out, or Spark repeats nothing.")
        if name in before and name not in _visible(folder):
            raise Wrong(f"{name} was deleted before its repetition was whole: rename replaces it.")
        if _visible(folder) != before:
            names = ", ".join(sorted({*_visible(folder)} - {*before}) or [name])
            raise Wrong(
                f"Half a batch is visible in {names}: drafts must not match {READERS_SEE}, and "
                "only whole ones are renamed."
            )
    try:
        answer(folder, 10, iter(["e", "f"]))
    except OSError as error:
        raise Wrong(
            f"A batch that broke off and came again raised {told(error)}. Its draft may still be "
            "there: write it from the start."
        ) from None
    if _visible(folder).get("batch-10.csv") != _text(["e", "f"]):
        raise Wrong(
            "A batch that broke off and came again is not whole: write its file from the start."
        )
    if _visible(folder)["batch-1.csv"] != before["batch-1.csv"]:
        raise Wrong("Batch 10 came, and batch-1.csv changed: rename the draft of this batch only.")
    answer(folder, 1, iter([]))
    text = _visible(folder).get("batch-1.csv", "")
    if text:
        raise Wrong(
            "A batch without lines has an empty file, or none, also when it comes again: yours is "
            f"{text!r}."
        )
    if "batch-10.csv" not in _visible(folder):
        raise Wrong("Batch 1 came again, and batch-10.csv is gone: batch-1* matches that, too.")


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _visible(folder: Path) -> dict[str, str]:
    return texts(folder, READERS_SEE)


# ---- Exercise 2: the proof -----------------------------------------------------------------------


def _multisets(sent: Sequence[str], arrived: Sequence[str], hint: str) -> Case:
    """A string stands for lines of one letter."""
    lost, often = Counter(sent) - Counter(arrived), Counter(arrived) - Counter(sent)
    swapped = "The two are swapped: first what is lost, then what came too often."
    wanted = dict(lost), dict(often)
    return Case((list(sent), list(arrived)), wanted, hint, [(wanted[::-1], swapped)])


_SENT_AND_ARRIVED = [
    _multisets("abc", "cab", "Nothing is lost here, only the order differs: two empty ones."),
    _multisets("abc", "aac", "One is lost and another came twice: equal lengths prove nothing."),
    _multisets("aab", "ab", "Sent twice and arrived once is a loss: sets cannot count."),
    _multisets("aaa", "a", "Two of three are lost: say how many."),
    _multisets("ab", "aaab", "A line that came three times came twice too often."),
    _multisets("ab", "abx", "A line that nobody sent came too often, too."),
    _multisets("aab", "aaab", "Sent twice and arrived three times is once too often."),
    _multisets(
        ["", " a", "a", "a "], ["a"], "A line counts as it is: an empty one, too, and spaces."
    ),
]


@exercise("def compare(sent, arrived)")
def check_08_2(answer: Answer) -> str:
    """Does `answer` find what is lost and what came too often, as multisets?"""
    compare(answer, _SENT_AND_ARRIVED, key=_copies)
    return "Every line as often as it was sent: that is exactly once, and this proves it."


def _copies(found: Any) -> tuple[dict[str, int], ...]:
    pair = isinstance(found, tuple | list) and len(found) == 2
    if not pair or not all(isinstance(each, Mapping) for each in found):
        raise Wrong(f"Two dictionaries are wanted, lost and too often; it gives {found!r}.")
    if not all(isinstance(times, Real) for each in found for times in each.values()):
        raise Wrong(f"Each line leads to a number of copies; it gives {found!r}.")
    if any(times <= 0 for each in found for times in each.values()):
        raise Wrong(
            f"Leave out lines of which no copy is lost, or too many: it gives {found!r}. The `-` "
            "of two Counters does so."
        )
    return tuple(dict(each) for each in found)
