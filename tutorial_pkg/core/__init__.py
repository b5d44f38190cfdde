"""Used by several rooms; imports none of them.

- `options.py`, `line_options.py`, `secrets.py`: options, declared once.
- `filters.py`: Spark's filters. `dead_letters.py`: a side table of what cannot be read.
- `lines.py`, `columns.py`, `arrow_casts.py`, `compute.py`: Arrow.
- `read_limit.py`, `batch_order.py`: how much a batch takes, and whether it is a repetition.
- `waiting.py`: waiting with a bound, retries. `disk.py`, `places.py`: the machine.
- `worker.py`, `spark_versions.py`, `errors.py`: Spark's processes, versions and errors.
- `imports.py`, `json_text.py`: imports and JSON.
"""
