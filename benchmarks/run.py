"""All benchmarks, one after the other, twice; writes `RESULTS.md` and plots beside this file.

    python benchmarks/run.py [--peers] [--once] [--smoke] [--again SECTION ...] [--report]

`--peers` adds Flink and Bytewax. `--once` is for those in a hurry: one pass, and the page says so.
`--smoke` is for trying out: little work, and the results go to `.work/bench/`. `--again` measures
single sections, anew or because a run broke off before them, and keeps the rest of the last run;
the page says so. `--report` measures nothing: it writes the last run's results again, for work on
the page's text.

Twice, because no two JVMs compile the same code in the same way, and because a machine may be
slower for some minutes: with one pass, ratios of two runs differed by up to a fifth. Without peers
it takes half an hour on two cores, with them an hour.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from measure import Result
from report import write_report

from tutorial_pkg.core.places import work_dir

HERE = Path(__file__).parent
SECTIONS = (
    "startup",
    "latency",
    "network_lines",
    "network_trust",
    "file_lines",
    "growth",
    "cpu_log",
    "builder",
    "observe",
    "postgres",
    "brokers",
    "lake",
    "limits",
)
Passes = tuple[int, ...]
PASSES: Passes = (1, 2)
SMOKE = {"lines": 60_000, "rounds": 1}
SMOKE_OF = {"startup": {"rounds": 1}, "latency": {"lines": 10, "rounds": 1}}  # where it differs
RUN = "run.json"  # when it ran, and what was measured afterwards


def measure(sections: Sequence[str], passes: Passes, smoke: bool, folder: Path) -> None:
    """Run each benchmark in a process of its own, so that none finds the memory of another."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run = {"date": time.strftime("%Y-%m-%d"), "again": []}
    (folder / RUN).write_text(json.dumps(run))  # first: `--again` completes a run that breaks off
    measure_passes(sections, passes, smoke, folder)


def measure_passes(sections: Sequence[str], passes: Passes, smoke: bool, folder: Path) -> None:
    for number in passes:
        for section in sections:
            print(f"\n{section}, pass {number}", flush=True)
            command = [sys.executable, HERE / f"bench_{section}.py", *options_of(section, smoke)]
            subprocess.run([*command, "--json", folder / f"{section}.{number}.json"], check=True)


def measure_again(sections: Sequence[str], passes: Passes, smoke: bool, folder: Path) -> None:
    run = json.loads((folder / RUN).read_text())
    measure_passes(sections, passes, smoke, folder)
    run["again"] = sorted({*run["again"], *sections})
    (folder / RUN).write_text(json.dumps(run))


def options_of(section: str, smoke: bool) -> list[str]:
    if not smoke:
        return []
    return [
        part
        for name, value in SMOKE_OF.get(section, SMOKE).items()
        for part in (f"--{name}", str(value))
    ]


def result_of(section: str, folder: Path) -> Result | None:
    """All passes of a section as one result, if it was measured."""
    passes = [Result.from_json(file) for file in sorted(folder.glob(f"{section}.*.json"))]
    return reduce(Result.joined, passes) if passes else None


def report(folder: Path, target: Path) -> None:
    results = {name: result_of(name, folder) for name in (*SECTIONS, "peers")}
    measured = {name: result for name, result in results.items() if result}
    write_report(measured, target, **json.loads((folder / RUN).read_text()))
    print(f"\nwritten: {target / 'RESULTS.md'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", action="store_true", help="Flink and Bytewax as well")
    parser.add_argument("--once", action="store_true", help="one pass instead of two")
    parser.add_argument("--smoke", action="store_true", help="little work, only to try it out")
    parser.add_argument("--again", nargs="+", choices=(*SECTIONS, "peers"), help="only these")
    parser.add_argument("--report", action="store_true", help="only write the last results again")
    given = parser.parse_args()
    folder = work_dir("bench") / ("smoke" if given.smoke else "results")
    passes = PASSES[:1] if given.once else PASSES
    if given.again:
        measure_again(given.again, passes, given.smoke, folder)
    elif not given.report:
        measure((*SECTIONS, "peers") if given.peers else SECTIONS, passes, given.smoke, folder)
    report(folder, work_dir("bench") if given.smoke else HERE)


if __name__ == "__main__":
    main()
