"""The checks of notebooks 07 and 08: right answers pass, typical wrong ones get their hint."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tutorial_pkg.workbook.checks import check_07_1, check_07_2, check_08_1, check_08_2


def numbers(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())


def offset(checkpoint: Path, batch: int) -> dict[str, int] | None:
    note = checkpoint / "offsets" / str(batch)
    return json.loads(note.read_text().splitlines()[2]) if note.exists() else None


def repeated(checkpoint: Path) -> tuple | None:
    last = numbers(checkpoint / "offsets")[-1]
    if last in numbers(checkpoint / "commits"):
        return None
    return last, offset(checkpoint, last - 1), offset(checkpoint, last)


def always_the_last(checkpoint: Path) -> tuple:
    last = numbers(checkpoint / "offsets")[-1]
    return last, offset(checkpoint, last - 1), offset(checkpoint, last)


def names_as_text(checkpoint: Path) -> tuple | None:
    last = max(file.name for file in (checkpoint / "offsets").glob("[0-9]*"))
    if (checkpoint / "commits" / last).exists() and len(numbers(checkpoint / "commits")) < 9:
        return None
    return int(last), offset(checkpoint, int(last) - 1), offset(checkpoint, int(last))


def names_with_checksums(checkpoint: Path) -> tuple | None:
    last = max(int(file.name) for file in (checkpoint / "offsets").iterdir())
    return last, None, None


def the_committed_one(checkpoint: Path) -> tuple | None:
    last = numbers(checkpoint / "commits") and numbers(checkpoint / "commits")[-1]
    return last, offset(checkpoint, last - 1), offset(checkpoint, last)


def by_how_many(checkpoint: Path) -> tuple | None:
    begun, through = numbers(checkpoint / "offsets"), numbers(checkpoint / "commits")
    if len(begun) == len(through):
        return None
    return begun[-1], offset(checkpoint, begun[-1] - 1), offset(checkpoint, begun[-1])


def by_age(checkpoint: Path) -> tuple | None:
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: file.stat().st_mtime_ns)
    last = int(newest.name)
    return None if last in numbers(checkpoint / "commits") else (last, None, offset(checkpoint, 0))


def after_the_committed_one(checkpoint: Path) -> tuple | None:
    following = numbers(checkpoint / "commits")[-1] + 1
    begun = offset(checkpoint, following)
    return begun and (following, offset(checkpoint, following - 1), begun)


def start_at_zero(checkpoint: Path) -> tuple | None:
    found = repeated(checkpoint)
    return found and (found[0], found[1] or {"next": 0}, found[2])


def test_07_1_right() -> None:
    assert check_07_1(repeated).passed
    assert check_07_1(lambda checkpoint: (found := repeated(checkpoint)) and list(found)).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (always_the_last, "nothing is repeated: return None"),
        (names_as_text, "not 9: compare the names as numbers"),
        (names_with_checksums, "a hidden file such as .2.crc"),
        (the_committed_one, "nothing is repeated: return None"),
        (lambda checkpoint: None, "offsets/2 has no commits/2"),
        (by_how_many, "compare numbers of batches, not how many files there are"),
        (lambda checkpoint: repeated(checkpoint) and repeated(checkpoint)[0], "Yours gives 2"),
        (lambda checkpoint: repeated(checkpoint) or (), "nothing is repeated: return None"),
        (start_at_zero, "its start is None"),
        (by_age, "offsets/2 has no commits/2"),
        (after_the_committed_one, "raised IndexError: list index out of range. Batch 0 has no"),
        (lambda checkpoint: {}["next"], "raised KeyError"),
    ],
)
def test_07_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_07_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def restore(saved: dict[str, int], ports: list[int]) -> dict[str, int]:
    return {**{str(port): 0 for port in ports}, **saved}


def test_07_2_right() -> None:
    assert check_07_2(restore).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ({"11000": 0}, "A function is wanted"),
        (lambda saved, ports: None, "not None: is there a `return`?"),
        (lambda saved, ports: json.dumps(saved), "must return a dict such as saved, not str"),
        (lambda saved, ports: saved[ports], "It raised TypeError"),
        (lambda saved, ports: {**dict.fromkeys(ports, 0), **saved}, "A key in JSON is a string"),
        (lambda saved, ports: {str(port): 0 for port in ports}, "what is saved must win over 0"),
        (lambda saved, ports: {**saved, **{str(port): 0 for port in ports}}, "must win over 0"),
        (
            lambda saved, ports: {str(port): saved.get(str(port), 0) for port in ports},
            "Port 11001 is gone",
        ),
        (lambda saved, ports: saved, "A new port starts at 0"),
    ],
)
def test_07_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_07_2(answer)
    assert not verdict.passed
    assert hint in verdict.message


def write_batch(folder: Path, batch_id: int, lines: Any) -> None:
    draft = folder / f".batch-{batch_id}.draft"
    with draft.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    draft.replace(folder / f"batch-{batch_id}.csv")


def append(folder: Path, batch_id: int, lines: Any) -> None:
    with (folder / f"batch-{batch_id}.csv").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def one_file(folder: Path, batch_id: int, lines: Any) -> None:
    (folder / "batch.csv").write_text("".join(f"{line}\n" for line in lines))


def in_place(folder: Path, batch_id: int, lines: Any) -> None:
    with (folder / f"batch-{batch_id}.csv").open("w") as file:
        file.writelines(f"{line}\n" for line in lines)


def swallow(folder: Path, batch_id: int, lines: Any) -> None:
    try:
        write_batch(folder, batch_id, lines)
    except OSError:
        return


def draft_appended(folder: Path, batch_id: int, lines: Any) -> None:
    draft = folder / f".batch-{batch_id}.draft"
    with draft.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    draft.replace(folder / f"batch-{batch_id}.csv")


def without_newlines(folder: Path, batch_id: int, lines: Any) -> None:
    (folder / f"batch-{batch_id}.csv").write_text("".join(lines))


def lines_first(folder: Path, batch_id: int, lines: Any) -> None:
    """All lines are there before the file is opened, but not yet when a reader looks into it."""
    text = "".join(f"{line}\n" for line in lines)
    (folder / f"batch-{batch_id}.csv").write_text(text)


def visible_draft(folder: Path, batch_id: int, lines: Any) -> None:
    draft = folder / f"batch-{batch_id}.tmp.csv"
    with draft.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    draft.replace(folder / f"batch-{batch_id}.csv")


def renames_too_early(folder: Path, batch_id: int, lines: Any) -> None:
    draft = folder / f".batch-{batch_id}.draft"
    with draft.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
        draft.replace(folder / f"batch-{batch_id}.csv")


def without_the_last_newline(folder: Path, batch_id: int, lines: Any) -> None:
    write_batch(folder, batch_id, ["\n".join(lines)])
    file = folder / f"batch-{batch_id}.csv"
    file.write_text(file.read_text().removesuffix("\n"))


def renames_with_os(folder: Path, batch_id: int, lines: Any) -> None:
    draft = f"{folder}/draft"
    with open(draft, "w") as file:
        file.writelines(f"{line}\n" for line in lines)
    os.rename(draft, f"{folder}/batch-{batch_id}.csv")  # noqa: PTH104


def counts_by_itself(folder: Path, batch_id: int, lines: Any) -> None:
    write_batch(folder, len(list(folder.glob("batch-*.csv"))), lines)


def keeps_the_first(folder: Path, batch_id: int, lines: Any) -> None:
    if not (folder / f"batch-{batch_id}.csv").exists():
        write_batch(folder, batch_id, lines)


def deletes_first(folder: Path, batch_id: int, lines: Any) -> None:
    (folder / f"batch-{batch_id}.csv").unlink(missing_ok=True)
    write_batch(folder, batch_id, lines)


def draft_elsewhere(folder: Path, batch_id: int, lines: Any) -> None:
    with tempfile.NamedTemporaryFile("w", delete=False) as draft:
        draft.writelines(f"{line}\n" for line in lines)
    shutil.move(draft.name, folder / f"batch-{batch_id}.csv")


def test_08_1_right() -> None:
    assert check_08_1(write_batch).passed
    assert check_08_1(renames_with_os).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (lambda folder, batch_id, lines: None, "found no file"),
        (one_file, "found batch.csv: use the batch id"),
        (append, "open its file with 'w'"),
        (without_newlines, "Each line ends with a newline"),
        (in_place, "It writes under the final name"),
        (lines_first, "It writes under the final name"),
        (visible_draft, "Half a batch is visible in batch-1.tmp.csv"),
        (renames_too_early, "renamed before it was whole"),
        (without_the_last_newline, "the last one too"),
        (counts_by_itself, "found batch-2.csv: use the batch id"),
        (keeps_the_first, "yours leaves the first one there"),
        (deletes_first, "is gone since its repetition broke off: do not delete it first"),
        (draft_elsewhere, "a rename is one step only within a file system"),
        (swallow, "your function swallowed it: do not catch it"),
        (draft_appended, "begin its file anew"),
        (lambda folder, batch_id: None, "raised TypeError"),
    ],
)
def test_08_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_08_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def compare(sent: list[str], arrived: list[str]) -> tuple[Counter[str], Counter[str]]:
    return Counter(sent) - Counter(arrived), Counter(arrived) - Counter(sent)


def subtract(sent: list[str], arrived: list[str]) -> tuple[Counter[str], Counter[str]]:
    """Counter.subtract keeps zeros: they say nothing, so they do no harm."""
    lost = Counter({line: max(0, n) for line, n in (Counter(sent) - Counter(arrived)).items()})
    return lost + Counter(), Counter({**dict.fromkeys(sent, 0), **compare(sent, arrived)[1]})


def by_sets(sent: list[str], arrived: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    return dict.fromkeys({*sent} - {*arrived}, 1), dict.fromkeys({*arrived} - {*sent}, 1)


def lost_by_set(sent: list[str], arrived: list[str]) -> tuple[dict[str, int], Counter[str]]:
    return dict.fromkeys({*sent} - {*arrived}, 1), Counter(arrived) - Counter(sent)


def repeats_once(sent: list[str], arrived: list[str]) -> tuple[Counter[str], dict[str, int]]:
    lost, often = compare(sent, arrived)
    return lost, dict.fromkeys(often, 1)


def only_known(sent: list[str], arrived: list[str]) -> tuple[Counter[str], dict[str, int]]:
    lost, often = compare(sent, arrived)
    return lost, {line: times for line, times in often.items() if line in sent}


def below_zero(sent: list[str], arrived: list[str]) -> tuple[Counter[str], Counter[str]]:
    lost = Counter(sent)
    lost.subtract(arrived)
    return lost, Counter(arrived) - Counter(sent)


def all_that_came(sent: list[str], arrived: list[str]) -> tuple[Counter[str], dict[str, int]]:
    lost, often = compare(sent, arrived)
    return lost, {line: arrived.count(line) for line in often}


def test_08_2_right() -> None:
    assert check_08_2(compare).passed
    assert check_08_2(subtract).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (lambda sent, arrived: sent == arrived, "Two dictionaries are wanted"),
        (lambda sent, arrived: Counter(sent) - arrived, "It raised TypeError"),
        (below_zero, "Less than none cannot be lost"),
        (all_that_came, "{'b': 1} and {'a': 1}, not"),
        (lambda sent, arrived: ({}, {}), "equal lengths prove nothing"),
        (by_sets, "equal lengths prove nothing"),
        (lost_by_set, "sets cannot count"),
        (repeats_once, "came twice too often"),
        (only_known, "A line that nobody sent"),
        (lambda sent, arrived: compare(sent, arrived)[::-1], "The two are swapped"),
        (lambda sent, arrived: (list(sent), list(arrived)), "Two dictionaries are wanted"),
        (lambda sent, arrived: (*compare(sent, arrived), True), "Two dictionaries are wanted"),
    ],
)
def test_08_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_08_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
