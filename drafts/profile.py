"""Where an examination's time goes: per promise, and in stop, start, settle, kill."""
import sys, time
from collections import defaultdict
from tests.integration import kit_subjects
from tutorial_pkg import start_spark
from tutorial_pkg.testing import trial as t, examination as x
from tutorial_pkg.testing.processes import *
spent = defaultdict(float); count = defaultdict(int)
def timed(cls, name):
    real = getattr(cls, name)
    def run(self, *a, **k):
        b = time.monotonic()
        try: return real(self, *a, **k)
        finally:
            spent[name] += time.monotonic() - b; count[name] += 1
    setattr(cls, name, run)
for n in ("stop", "_begin", "settle", "_rest", "wait", "drain", "failed", "killed", "left_open"): timed(t.Trial, n)
real_end = t.end_survivors
def es(s):
    b = time.monotonic(); r = real_end(s); spent["end_survivors"] += time.monotonic()-b; count["end_survivors"]+=1; return r
t.end_survivors = es
real_verdict = x.Examination.verdict
def verdict(self, promise):
    spent.clear(); count.clear(); b = time.monotonic(); v = real_verdict(self, promise)
    print(f"{v.mark} {promise.name:18} {time.monotonic()-b:6.2f}  ", "  ".join(f"{n} {count[n]}× {s:.2f}" for n, s in sorted(spent.items()) if s > .05), v.seen[:200], flush=True)
    return v
x.Examination.verdict = verdict
spark = start_spark("tests", cores=2)
for name in sys.argv[1:]:
    describe = getattr(kit_subjects, name)
    f = x.examine_sink if "sink" in name else x.examine_source
    b = time.monotonic(); r = f(describe, spark)
    print(name, f"{time.monotonic()-b:.1f} s", r._summary(), flush=True)
spark.stop()
