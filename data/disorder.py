"""Make `cpu_log_disordered.csv` of `cpu_log.csv`: its lines, in the order of an unlucky arrival.

    python data/disorder.py

Every line takes up to 4 seconds to arrive, one in a hundred takes 20 seconds more (disorder), and
those with an odd sequence number lag by another minute, as if they came over a slower line (skew).
The same input and seed give the same output.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

SEED = 2020
USUAL_SECONDS = 4
STRAGGLER_SECONDS, ONE_STRAGGLER_IN = 20, 100
LAG_SECONDS = 60

RECORDED = Path(__file__).with_name("cpu_log.csv")
DISORDERED = Path(__file__).with_name("cpu_log_disordered.csv")


def disordered(lines: list[str], seed: int = SEED) -> list[str]:
    """The same lines, in the order in which they would arrive."""
    chance = random.Random(seed)
    arrivals = [_event_seconds(line) + _delay(line, chance) for line in lines]
    return [line for _, line in sorted(zip(arrivals, lines, strict=True))]


def _event_seconds(line: str) -> float:
    return int(line.partition(",")[0]) / 1000


def _delay(line: str, chance: random.Random) -> float:
    usual = chance.uniform(0, USUAL_SECONDS)
    straggling = STRAGGLER_SECONDS if chance.randrange(ONE_STRAGGLER_IN) == 0 else 0
    return usual + straggling + (LAG_SECONDS if _lags(line) else 0)


def _lags(line: str) -> bool:
    return int(re.search(r"sequence=(\d+)", line)[1]) % 2 == 1


if __name__ == "__main__":
    DISORDERED.write_text("\n".join(disordered(RECORDED.read_text().splitlines())) + "\n")
    print(f"{DISORDERED.name}: the lines of {RECORDED.name}, disordered and skewed")
