"""Rereads after the workers were killed, many times, with the machine busy."""
import sys, time, multiprocessing, tempfile
from pathlib import Path
from tests.integration import kit_subjects
from tutorial_pkg import start_spark
from tutorial_pkg.testing.driver import Drivers
from tutorial_pkg.testing.source_trial import SourceTrial
def burn():
    while True: pass
name, rounds, burners = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
spark = start_spark("tests", cores=2)
ps = [multiprocessing.Process(target=burn, daemon=True) for _ in range(burners)]
for p in ps: p.start()
trial = SourceTrial(spark, getattr(kit_subjects, name), Drivers(spark, Path(tempfile.mkdtemp())))
bad = 0
b = time.monotonic()
try:
    trial.run(); trial.plan.rereads = True
    for r in range(rounds):
        try:
            trial.run(); trial.feed(); trial.read_on()
        except Exception as e:
            bad += 1; print(r, type(e).__name__, str(e)[:300], "|", str(e.__cause__)[:3000] if bad < 3 else "", flush=True)
finally:
    print("rounds", rounds, "bad", bad, "rereads", len(trial.plan.reread), f"{time.monotonic()-b:.0f} s")
    trial.close()
    for p in ps: p.kill()
    spark.stop()
