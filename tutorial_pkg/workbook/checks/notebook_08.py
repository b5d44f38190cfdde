"""Checks of notebook 08."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Answer = Callable[..., Any]


@exercise
def check_08_1(answer: Answer) -> Verdict:
    """Does `answer` write each batch into one file, once, and all of it or nothing?"""
    if not callable(answer):
        return not_yet("A function is wanted: def write_batch(folder, batch_id, lines): ...")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            return _batches(answer, folder) or _interrupted(answer, folder) or _REPLACED
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            return not_yet(f"It raised {type(error).__name__}: {str(error)[:100]}.")


_REPLACED = right("A repeated batch replaces its file, and nobody sees half of one.")


def _batches(answer: Answer, folder: Path) -> Verdict | None:
    """What is wrong after two batches of which the second is repeated; None if nothing is.

    It is repeated with other lines, so that one can tell whether its file was replaced.
    """
    for batch, lines in ((0, ["a", "b"]), (1, ["c"]), (1, ["d", "e"])):
        before = _visible(folder).get(f"batch-{batch}.csv", "")
        with _renames() as renamed:
            answer(folder, batch, iter(lines))
        wrong = _about_names(folder) or _about_lines(folder, batch, lines, before)
        if wrong:
            return wrong
    return _about_rename(folder, renamed.get("batch-1.csv"), _text(["d", "e"]))


def _about_names(folder: Path) -> Verdict | None:
    strange = sorted(set(_visible(folder)) - {"batch-0.csv", "batch-1.csv"})
    if not strange and _visible(folder):
        return None
    names = ", ".join(strange or sorted(file.name for file in folder.iterdir())) or "no file"
    return not_yet(f"batch-0.csv and batch-1.csv are wanted, found {names}: use the batch id.")


def _about_lines(folder: Path, batch: int, lines: list[str], before: str) -> Verdict | None:
    found = _visible(folder).get(f"batch-{batch}.csv")
    if found == _text(lines):
        return None
    if before and found == before + _text(lines):
        return not_yet("The repeated batch was appended: open its file with 'w', not with 'a'.")
    if before and found == before:
        return not_yet("A repeated batch replaces its file; yours leaves the first one there.")
    return not_yet(
        f"Each line ends with a newline, the last one too: {_text(lines)!r} became {found!r}."
    )


def _about_rename(folder: Path, draft: Draft | None, text: str) -> Verdict | None:
    """What a reader may have seen, although the file was right in the end."""
    if draft and not draft.file.resolve().is_relative_to(folder.resolve()):
        return not_yet(
            f"The draft lies in {draft.file.parent}: a rename is one step only within a file "
            "system, and elsewhere a copy. Write the draft into `folder`."
        )
    if draft and draft.text == text:
        return None
    if draft:
        return not_yet(
            "The draft was renamed before it was whole: its lines were still in the buffer. Leave "
            "the `with` block, which closes the file, and rename after that."
        )
    return not_yet(
        "It writes under the final name, where a reader may look in the middle of it: write under "
        "another name, then rename."
    )


def _interrupted(answer: Answer, folder: Path) -> Verdict | None:
    """What is wrong after batches that broke off: a repeated one and a new one, then repeated."""
    before = _visible(folder)
    for batch in (1, 2):
        name = f"batch-{batch}.csv"
        if not _breaks_off(answer, folder, batch):
            return not_yet(
                "The lines broke off with an OSError, and your function swallowed it: do not catch "
                "it. Spark repeats only a batch whose error it hears of."
            )
        if name in before and name not in _visible(folder):
            return not_yet(
                f"{name} was there, and is gone since its repetition broke off: do not delete it "
                "first, a rename replaces it in one step."
            )
        if _visible(folder) != before:
            names = ", ".join(sorted({*_visible(folder)} - {*before}) or [name])
            return not_yet(
                f"Half a batch is visible in {names}: write under a name that does not match "
                "batch-*.csv, then rename it."
            )
    answer(folder, 2, iter(["e", "f"]))
    if _visible(folder).get("batch-2.csv") != _text(["e", "f"]):
        return not_yet("A batch that broke off and came again is not whole: begin its file anew.")
    return None


def _breaks_off(answer: Answer, folder: Path, batch: int) -> bool:
    try:
        answer(folder, batch, _broken_lines())
    except OSError:
        return True
    return False


def _broken_lines() -> Iterator[str]:
    yield "half of a batch"
    raise OSError("the power fails")


class Draft(NamedTuple):
    file: Path
    text: str


@contextmanager
def _renames() -> Iterator[dict[str, Draft]]:
    """Within it, what each renamed file was and held at that moment, by its new name."""
    seen: dict[str, Draft] = {}

    def noticed(rename: Answer) -> Answer:
        def renames(source: Any, target: Any, **places: Any) -> None:
            seen[Path(target).name] = Draft(Path(source), Path(source).read_text())
            rename(source, target, **places)

        return renames

    with (
        mock.patch.object(os, "rename", noticed(os.rename)),
        mock.patch.object(os, "replace", noticed(os.replace)),
    ):
        yield seen


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _visible(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob("batch-*.csv")}


@exercise
def check_08_2(answer: Answer) -> Verdict:
    """Does `answer` find what is lost and what came too often, as multisets?"""
    if not callable(answer):
        return not_yet("A function is wanted: def compare(sent, arrived): ...")
    for sent, arrived, hint in (
        ("abc", "cab", "Nothing is lost here, only the order differs: return two empty ones."),
        ("abc", "aac", "One is lost and another came twice: equal lengths prove nothing."),
        ("aab", "ab", "Sent twice and arrived once is a loss: sets cannot count, Counter can."),
        ("ab", "aaab", "The number counts: a line that came three times came twice too often."),
        ("ab", "abx", "A line that nobody sent came too often, too."),
    ):
        lost, often = Counter(sent) - Counter(arrived), Counter(arrived) - Counter(sent)
        found = _call(answer, list(sent), list(arrived))
        if isinstance(found, Exception):
            return not_yet(f"It raised {type(found).__name__}: {str(found)[:100]}.")
        if not _two_mappings(found):
            return not_yet(f"Two dictionaries are wanted, lost and too often; it gives {found!r}.")
        if lost != often and tuple(map(_without_zeros, found)) == (often, lost):
            return not_yet("The two are swapped: first what is lost, then what came too often.")
        if any(times < 0 for each in found for times in each.values()):
            return not_yet(f"Less than none cannot be lost: it gives {found!r}. Subtract with `-`.")
        if tuple(map(_without_zeros, found)) != (lost, often):
            wanted = f"{dict(lost)} and {dict(often)}, not {found!r}"
            return not_yet(f"{hint} Sent {sent}, arrived {arrived}: {wanted}.")
    return right("Every line as often as it was sent: that is exactly once, and this proves it.")


def _two_mappings(found: Any) -> bool:
    return (
        isinstance(found, tuple | list)
        and len(found) == 2
        and all(isinstance(each, Mapping) for each in found)
    )


def _without_zeros(found: Mapping[str, int]) -> dict[str, int]:
    return {line: times for line, times in found.items() if times}


def _call(function: Answer, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error
