"""All benchmarks, one after the other; writes `RESULTS.md` and plots beside this file.

    python benchmarks/run.py [--peers] [--smoke]

`--peers` adds Flink and Bytewax. `--smoke` is for trying out: little work, and the results go to
`.work/bench/`. Without peers it takes under 15 minutes on two cores, with them under 30.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from measure import Result
from report import write_report

from tutorial_pkg.core.places import work_dir

HERE = Path(__file__).parent
SECTIONS = ("startup", "network_lines", "file_lines", "cpu_log", "limits")
SMOKE = {"lines": 60_000, "rounds": 1}


def run(section: str, options: list[str], folder: Path) -> Result:
    """Run a benchmark in a process of its own, so that none finds the memory of another."""
    found = folder / f"{section}.json"
    script = HERE / f"bench_{section}.py"
    print(f"\n{section}", flush=True)
    subprocess.run([sys.executable, script, "--json", found, *options], check=True)
    return Result.from_json(found)


def options_of(section: str, smoke: bool) -> list[str]:
    if not smoke:
        return []
    wanted = {"rounds": SMOKE["rounds"]} if section == "startup" else SMOKE
    return [part for name, value in wanted.items() for part in (f"--{name}", str(value))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", action="store_true", help="Flink and Bytewax as well")
    parser.add_argument("--smoke", action="store_true", help="little work, only to try it out")
    given = parser.parse_args()
    sections = (*SECTIONS, "peers") if given.peers else SECTIONS
    load, started = psutil.getloadavg()[0], time.time()
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        results = {
            name: run(name, options_of(name, given.smoke), Path(folder)) for name in sections
        }
    target = work_dir("bench") if given.smoke else HERE
    write_report(results, target, load=load, minutes=(time.time() - started) / 60)
    print(f"\nwritten: {target / 'RESULTS.md'}")


if __name__ == "__main__":
    main()
