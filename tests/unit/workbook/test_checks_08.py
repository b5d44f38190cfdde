"""The checks of notebook 08."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from os import replace
from pathlib import Path
from typing import Any

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_08_1, check_08_2


def write_batch(folder: Path, batch_id: int, lines: Any) -> None:
    final = folder / f"batch-{batch_id}.csv"
    draft = folder / f".batch-{batch_id}.draft"
    with draft.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    draft.replace(final)


writing = partial(changed, write_batch)


def swallows(folder: Path, batch_id: int, lines: Any) -> None:
    with suppress(OSError):
        write_batch(folder, batch_id, lines)


def without_the_last_newline(folder: Path, batch_id: int, lines: Any) -> None:
    write_batch(folder, batch_id, ["\n".join(lines)])
    file = folder / f"batch-{batch_id}.csv"
    file.write_text(file.read_text().removesuffix("\n"))


def renames_with_os(folder: Path, batch_id: int, lines: Any) -> None:
    draft = f"{folder}/draft"
    with open(draft, "w") as file:
        file.writelines(f"{line}\n" for line in lines)
    os.rename(draft, f"{folder}/batch-{batch_id}.csv")  # noqa: PTH104


def renames_by_name(folder: Path, batch_id: int, lines: Any) -> None:
    (folder / "draft").write_text("".join(f"{line}\n" for line in lines))
    os.rename(src=folder / "draft", dst=folder / f"batch-{batch_id}.csv")  # noqa: PTH104


def renames_by_import(folder: Path, batch_id: int, lines: Any) -> None:
    (folder / "draft").write_text("".join(f"{line}\n" for line in lines))
    replace(folder / "draft", folder / f"batch-{batch_id}.csv")  # noqa: PTH105


def draft_elsewhere(folder: Path, batch_id: int, lines: Any) -> None:
    with tempfile.NamedTemporaryFile("w", delete=False) as draft:
        draft.writelines(f"{line}\n" for line in lines)
    shutil.move(draft.name, folder / f"batch-{batch_id}.csv")


def in_place(mode: str, text: str = "{line}\\n") -> Any:
    return writing(('draft.open("w")', f'final.open("{mode}")'), ("    draft.replace(final)", ""),
                   ("{line}\\n", text))  # fmt: skip


def lines_first(folder: Path, batch_id: int, lines: Any) -> None:
    """All lines are there before the file is opened, but not yet when a reader looks into it."""
    text = "".join(f"{line}\n" for line in lines)
    (folder / f"batch-{batch_id}.csv").write_text(text)


def draft_in_sight(folder: Path, batch_id: int, lines: Any) -> None:
    """Whole, but for a moment readers see its lines twice."""
    lines_first(folder, f"{batch_id}-draft", lines)  # type: ignore[arg-type]
    (folder / f"batch-{batch_id}-draft.csv").replace(folder / f"batch-{batch_id}.csv")


def raises_its_own(folder: Path, batch_id: int, lines: Any) -> None:
    try:
        write_batch(folder, batch_id, lines)
    except OSError as error:
        raise RuntimeError(f"batch {batch_id} failed") from error


def tidies_up(folder: Path, batch_id: int, lines: Any) -> None:
    write_batch(folder, batch_id, lines)
    for file in folder.glob(f"batch-{batch_id}*"):
        if file.name != f"batch-{batch_id}.csv":
            file.unlink()


def unless_empty(folder: Path, batch_id: int, lines: Any) -> None:
    if some := list(lines):
        write_batch(folder, batch_id, some)


def unless_as_large(folder: Path, batch_id: int, lines: Any) -> None:
    final, text = folder / f"batch-{batch_id}.csv", list(lines)
    if not final.exists() or final.stat().st_size != len("\n".join(text)) + 1:
        write_batch(folder, batch_id, text)


def renames_all_drafts(folder: Path, batch_id: int, lines: Any) -> None:
    with (folder / f"{batch_id}.draft").open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    for draft in folder.glob("*.draft"):
        draft.replace(folder / f"batch-{draft.stem}.csv")


class Writes:
    def __init__(self, folder: Path, batch_id: int, lines: Any) -> None:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as draft:
            for line in lines:
                print(line, file=draft)
        shutil.move(draft.name, folder / f"batch-{batch_id}.csv")


def joined(folder: Path, batch_id: int, lines: Any) -> None:
    draft = folder / "draft"
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(folder / f"batch-{batch_id}.csv")


def unless_longer(folder: Path, batch_id: int, lines: Any) -> None:
    """As if the longer of two were the whole one."""
    lines, final = list(lines), folder / f"batch-{batch_id}.csv"
    if not final.exists() or len(lines) > final.read_text().count("\n"):
        write_batch(folder, batch_id, lines)


test_08_1 = tried(
    check_08_1,
    (write_batch, "✓ A repeated batch replaces its file"),
    (renames_with_os, "✓ A repeated batch"),
    (renames_by_import, "✓ A repeated batch"),
    (renames_by_name, "✓ A repeated batch"),
    (lambda folder, batch_id, lines: None, "found no file"),
    (writing(("batch-{batch_id}.csv", "batch.csv")), "found batch.csv: use the batch id"),
    (in_place("a"), "open its file with 'w'"),
    (in_place("w", "{line}"), "each with a newline, the last one too"),
    (in_place("w"), "Readers may look while it writes"),
    (lines_first, "Readers may look while it writes"),
    (writing((".draft", ".tmp.csv"), ('f".', 'f"')), "Readers saw batch-1.tmp.csv, too"),
    (writing(("    draft.replace", "        draft.replace")), "renamed before it was closed"),
    (draft_in_sight, "Readers saw batch-1-draft.csv, too"),
    (without_the_last_newline, "the last one too"),
    (writing(("{batch_id}.csv", "{len(list(folder.glob('b*')))}.csv")), "found batch-2.csv"),
    (writing(("draft.replace", "final.exists() or draft.replace")), "leaves the first one there"),
    (writing(("with draft", "final.unlink(True)\n    with draft")), "was deleted before its"),
    (writing(("in lines)", "in sorted(lines))")), "belong in the file as they come"),
    (writing(("in lines)", "in lines if line)")), "belong in the file as they come"),
    (writing(("{line}", "{line.strip()}")), "belong in the file as they come"),
    (writing(("in lines)", "in dict.fromkeys(lines))")), "belong in the file as they come"),
    (draft_elsewhere, "a rename is one step only within a file system"),
    (swallows, "It swallowed an OSError: let it out"),
    (writing(('"w"', '"a"')), "write its file from the start"),
    (lambda folder, batch_id: None, "raised TypeError"),
    (raises_its_own, "✓ A repeated batch"),
    (Writes, "✓ A repeated batch"),
    (writing(("    draft.replace", "    final.unlink(missing_ok=True)\n    draft.replace")),
     "batch-1.csv was deleted before its repetition was there: rename replaces it"),
    (joined, "an empty file, or none, also when it comes again: yours is '\\n'"),
    (unless_longer, "leaves the first one there"),
    (unless_as_large, "leaves the first one there"),
    (unless_empty, "an empty file, or none, also when it comes again: yours is 'e\\n"),
    (tidies_up, "Batch 1 came again, and batch-10.csv is gone: batch-1* matches that, too"),
    (renames_all_drafts, "Batch 10 came, and batch-1.csv changed"),
    (writing(('"w"', '"x"')), "came again raised FileExistsError"),
    (writing(("with draft", "list(lines)\n    with draft")), "became ''. Lines can be read only"),
)  # fmt: skip


def compare(sent: list[str], arrived: list[str]) -> tuple[Counter[str], Counter[str]]:
    lost, often = Counter(sent) - Counter(arrived), Counter(arrived) - Counter(sent)
    return lost, often


def often_as(expression: str) -> Any:
    return changed(compare, ("return lost, often", f"return lost, {expression}"))


def subtract(sent: list[str], arrived: list[str]) -> tuple[Counter[str], Counter[str]]:
    """It keeps zeros, as Counter.subtract does: then `if often:` is true though all is right."""
    lost = Counter({line: max(0, n) for line, n in (Counter(sent) - Counter(arrived)).items()})
    return lost + Counter(), Counter({**dict.fromkeys(sent, 0), **compare(sent, arrived)[1]})


def by_sets(sent: list[str], arrived: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    return dict.fromkeys({*sent} - {*arrived}, 1), dict.fromkeys({*arrived} - {*sent}, 1)


def below_zero(sent: list[str], arrived: list[str]) -> tuple[Counter[str], Counter[str]]:
    lost = Counter(sent)
    lost.subtract(arrived)
    return lost, Counter(arrived) - Counter(sent)


def line_by_line(sent: list[str], arrived: list[str]) -> list[dict[str, int]]:
    more = {line: arrived.count(line) - sent.count(line) for line in {*sent, *arrived}}
    return [{line: -n for line, n in more.items() if n < 0},
            {line: n for line, n in more.items() if n > 0}]  # fmt: skip


class Compared:
    def __call__(self, sent: list[str], arrived: list[str]) -> tuple[Any, Any]:
        missing = list(sent)
        often = [line for line in arrived if line not in missing or missing.remove(line)]
        return Counter(missing), Counter(often)


def unless_expected(sent: list[str], arrived: list[str]) -> tuple[Any, Any]:
    lost, _ = compare(sent, arrived)
    return lost, {line: n - (line in sent) for line, n in Counter(arrived).items()
                  if sent.count(line) < n}  # fmt: skip


def removes_meanwhile(sent: list[str], arrived: list[str]) -> tuple[Any, Any]:
    for line in sent:
        if line in arrived:
            sent.remove(line)
            arrived.remove(line)
    return Counter(sent), Counter(arrived)


test_08_2 = tried(
    check_08_2,
    (compare, "✓ Every line as often as it was sent"),
    (subtract, "Leave out lines of which no copy is lost"),
    (lambda sent, arrived: sent == arrived, "Two dictionaries are wanted"),
    (lambda sent, arrived: Counter(sent) - arrived, "raised TypeError"),
    (below_zero, "The `-` of two Counters does so"),
    (often_as("{line: arrived.count(line) for line in often}"), "must be ({'b': 1}, {'a': 1})"),
    (lambda sent, arrived: ({}, {}), "equal lengths prove nothing"),
    (by_sets, "equal lengths prove nothing"),
    (lambda s, a: (dict.fromkeys({*s} - {*a}, 1), compare(s, a)[1]), "sets cannot count"),
    (often_as("dict.fromkeys(often, 1)"), "came twice too often"),
    (lambda s, a: (dict.fromkeys(compare(s, a)[0], 1), compare(s, a)[1]), "Two of three are lost"),
    (often_as("{line: n for line, n in often.items() if line in sent}"), "that nobody sent"),
    (lambda sent, arrived: compare(sent, arrived)[::-1], "The two are swapped"),
    (lambda sent, arrived: (list(sent), list(arrived)), "Two dictionaries are wanted"),
    (lambda sent, arrived: (*compare(sent, arrived), True), "Two dictionaries are wanted"),
    (line_by_line, "✓ Every line"),
    (Compared(), "✓ Every line"),
    (unless_expected, "Sent twice and arrived three times is once too often"),
    (lambda s, a: compare([*map(str.strip, s)], [*map(str.strip, a)]), "an empty one, too"),
    (lambda s, a: compare([*map(str.rstrip, s)], [*map(str.rstrip, a)]), "an empty one, too"),
    (lambda s, a: compare([*filter(None, s)], [*filter(None, a)]), "an empty one, too"),
    (lambda s, a: [{k: str(n) for k, n in d.items()} for d in compare(s, a)], "number of copies"),
    (lambda s, a: [{k: [k] * n for k, n in d.items()} for d in compare(s, a)], "number of copies"),
    (removes_meanwhile, "only the order differs: two empty ones"),
)
