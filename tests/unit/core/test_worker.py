"""What a worker settles once stays out of the garbage collector's way, and garbage does not."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
import pandas, pyarrow
from tutorial_pkg.core.worker import settle

before = len(gc.get_objects())
settle()
after = len(gc.get_objects())
frozen = gc.get_freeze_count()
kept = [[] for _ in range(1_000)]
settle()
loop = []
loop.append(loop)
del loop
print(before > 10_000, after < 100, frozen >= before * 0.9)
print(gc.get_freeze_count() <= frozen, gc.collect() > 0)
"""


def test_a_settled_worker_walks_through_new_objects_only() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 5, done.stderr
