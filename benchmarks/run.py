"""All benchmarks, one after the other, twice; writes `RESULTS.md` and plots beside this file, and
the tables of `docs/scaling.md`.

    python benchmarks/run.py [SECTION ...] [--peers] [--once] [--smoke] [--report]

What each section has found is kept in `results/`, with its date. Where sections are named, only
these are measured, and the page has the others as they are there. `--peers` adds Flink and Bytewax.
`--once` is for those in a hurry: one pass, and the page says so. `--smoke` is for trying out:
little work, and everything goes to `.work/bench/`. `--report` measures nothing: it writes the page
again, for work on its text.

Twice, because no two JVMs compile the same code in the same way, and because a machine may be
slower for some minutes: with one pass, ratios of two runs differed by up to a fifth. Without peers
it takes half an hour on two cores, with them an hour.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from measure import Result
from report import write_report
from scaling import PAGE, write_scaling

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
    "filters",
    "limits",
    "scaling",
)
PEERS = "peers"
Passes = tuple[int, ...]
PASSES: Passes = (1, 2)
SMOKE = {"lines": 60_000, "rounds": 1}
SMOKE_OF = {  # where it differs
    "startup": {"rounds": 1},
    "latency": {"lines": 10, "rounds": 1},
    "scaling": {"lines": 1_000_000, "rounds": 1},
}


def measure(sections: Sequence[str], passes: Passes, smoke: bool, folder: Path) -> None:
    """Run each benchmark in a process of its own, so that none finds the memory of another."""
    for number in passes:
        for section in sections:
            print(f"\n{section}, pass {number}", flush=True)
            command = [sys.executable, HERE / f"bench_{section}.py", *options_of(section, smoke)]
            found = folder / f"{section}.{number}.json"
            subprocess.run([*command, "--json", found], check=True)
            if number == passes[0]:  # what an earlier run's later passes found goes with the first
                for old in {*folder.glob(f"{section}.*.json")} - {found}:
                    old.unlink()


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


def report(folder: Path, target: Path, docs: Path) -> None:
    results = {name: result_of(name, folder) for name in (*SECTIONS, PEERS)}
    measured = {name: result for name, result in results.items() if result}
    missing = [name for name in SECTIONS if name not in measured]
    if missing:
        sys.exit(f"not measured yet, so there is no page: run.py {' '.join(missing)}")
    write_report(measured, target)
    write_scaling(measured["scaling"], docs)
    print(f"\nwritten: {target / 'RESULTS.md'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="only these")
    parser.add_argument("--peers", action="store_true", help="Flink and Bytewax as well")
    parser.add_argument("--once", action="store_true", help="one pass instead of two")
    parser.add_argument("--smoke", action="store_true", help="little work, only to try it out")
    parser.add_argument("--report", action="store_true", help="only write the page again")
    given = parser.parse_args()
    if unknown := {*given.sections} - {*SECTIONS, PEERS}:
        parser.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    folder = work_dir("bench", "smoke") if given.smoke else HERE / "results"
    folder.mkdir(exist_ok=True)
    if not given.report:
        sections = given.sections or ((*SECTIONS, PEERS) if given.peers else SECTIONS)
        measure(sections, PASSES[:1] if given.once else PASSES, given.smoke, folder)
    if given.smoke:
        report(folder, work_dir("bench"), work_dir("bench", "docs"))
    else:
        report(folder, HERE, PAGE.parent)


if __name__ == "__main__":
    main()
