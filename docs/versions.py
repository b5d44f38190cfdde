"""Run the tests on real queries with each version of Spark, and write docs/versions.md.

    python docs/versions.py             all (an hour and more)
    python docs/versions.py 4.0 4.1     these again

Its table has the newest results of each version, which are kept in `.work/versions/results`; what
has not been tried here stays as the page has it.
The page explains which tests run with each version, and which with the oldest alone.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.versions.environments import (
    NEWEST,
    OLDER,
    ROOT,
    examined_by_the_kit,
    kit_python,
    spark_of,
    whole_python,
)
from tutorial_pkg.core.places import work_dir

PAGE = Path(__file__).with_suffix(".md")
MARKS = {"passed": "✓", "failed": "✗", "skipped": "–"}
# What needs the newest Spark is the workbook's; the wheels have tests of their own.
LEFT_OUT = ("book", "broken_queries", "checks_with_spark", "live", "readme", "upgrade")
MUTANTS = "tests/integration/test_kit_mutants.py"
SERVERS = ("kafka", "lake", "nats", "postgres_read", "postgres_sink")
SERVICES = [f"tests/services/test_{name}.py" for name in SERVERS]
TESTS = (
    "tests/integration",
    *(f"--ignore=tests/integration/test_{name}.py" for name in LEFT_OUT),
    f"--ignore={MUTANTS}",
)
# All subjects of the kit are a part of the soak; an empty `-m` takes them, as if they were not.
KIT = ("tests/integration/test_kit.py", "-k", "our_connectors", "-m", "")
AT_ONCE = ("-n", "2", "--dist")
ALONE = ("--last-failed",)

CONFORMANCE = PAGE.with_name("conformance.md")
BY_VERSION = "## Other people's, by version of Spark"


def main(versions: Sequence[str]) -> None:
    for spark in versions or (*OLDER, NEWEST):
        python = whole_python(spark)
        (results(spark) / "spark").write_text(spark_of(python))
        run(spark, python, "tests", TESTS)
        examine_others(spark)
        if spark == OLDER[0]:
            run(spark, python, "services", SERVICES)
            run(spark, python, "mutants", [MUTANTS], dist="load")
            run(spark, python, "kit", KIT, dist="load")
        write_pages()


def run(spark: str, python: Path, name: str, what: Sequence[str], dist: str = "loadscope") -> None:
    """Failures are in the results. A failed test has a second try, alone on a quiet machine."""
    cache = f"cache_dir={results(spark)}/{name}"
    (results(spark) / f"{name}.2.xml").unlink(missing_ok=True)
    for number, how in ((1, (*AT_ONCE, dist)), (2, ALONE)):
        report = results(spark) / f"{name}.{number}.xml"
        command = [python, "-m", "pytest", "-q", "-o", cache, *how, f"--junitxml={report}"]
        code = subprocess.run([*command, *what], cwd=ROOT, check=False).returncode
        if code == 0:
            return
        if code != 1:
            sys.exit(f"the tests with Spark {spark} did not run: pytest ended with {code}")


def examine_others(spark: str) -> None:
    """With the kit alone, in an environment that is new each time."""
    folder = work_dir("versions") / f"kit-{spark}"
    shutil.rmtree(folder, ignore_errors=True)
    marks = examined_by_the_kit(kit_python(spark, folder / "environment"), "fake")
    (results(spark) / "others.json").write_text(json.dumps(marks))


def results(spark: str) -> Path:
    return work_dir("versions", "results", spark)


def write_pages() -> None:
    found = [spark for spark in (*OLDER, NEWEST) if (results(spark) / "spark").exists()]
    names = {spark: (results(spark) / "spark").read_text() for spark in found}
    tests = {names[spark]: {row: cell(counts) for row, counts in rows(spark)} for spark in found}
    others = {names[spark]: marks_of_others(spark) for spark in found}
    replace_table(PAGE, "tests", tests)
    replace_table(CONFORMANCE, "promise", others, after=BY_VERSION)


def replace_table(
    page: Path, what: str, columns: dict[str, dict[str, str]], after: str = ""
) -> None:
    """Return the first table after the text `after` with this first column.

    Versions that weren't tried stay as the page has them.
    """
    head, mark, text = page.read_text().partition(after) if after else ("", "", page.read_text())
    table = re.compile(rf"^\| {what} \|.*?\n\n", re.S | re.M)
    for name, column in columns_of(table.findall(text)[0]).items():
        columns[name] = column | columns.get(name, {})
    columns = {name: columns[name] for name in sorted(columns) if columns[name]}
    lines = [f"| {' | '.join([what, *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for row in dict.fromkeys(name for column in columns.values() for name in column):
        lines.append(f"| {' | '.join([row, *(each.get(row, '') for each in columns.values())])} |")
    page.write_text(head + mark + table.sub("\n".join(lines) + "\n\n", text, count=1))


def columns_of(table: str) -> dict[str, dict[str, str]]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")[:-2]]
    (_, *names), _, *rows = lines
    return {name: {row[0]: row[at] for row in rows if row[at]} for at, name in enumerate(names, 1)}


def marks_of_others(spark: str) -> dict[str, str]:
    file = results(spark) / "others.json"
    return json.loads(file.read_text()) if file.exists() else {}


def rows(spark: str) -> Iterator[tuple[str, Counter[str]]]:
    """Return the tests, and how often each passed, failed or was skipped; a second try counts."""
    ended = {
        (case.get("classname"), case.get("name")): case
        for report in sorted(results(spark).glob("*.xml"))
        for case in ElementTree.parse(report).iter("testcase")
    }
    counted: dict[str, Counter[str]] = {}
    for case in ended.values():
        counted.setdefault(title(case), Counter())[outcome(case)] += 1
    return iter(counted.items())


def title(case: ElementTree.Element) -> str:
    """Return a file of tests, or a subject of the kit, separately."""
    name = case.get("name", "")
    file = (case.get("classname") or name).split(".")  # one that cannot be imported has no class
    if "of_ours_keeps" in name:
        return f"the kit on `{name.partition('[')[2].rstrip(']')}`"
    module = next(part for part in file if part.startswith("test_"))
    return module.removeprefix("test_").replace("_", " ")


def outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def cell(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {mark}" for kind, mark in MARKS.items() if counts[kind])


if __name__ == "__main__":
    main(sys.argv[1:])
