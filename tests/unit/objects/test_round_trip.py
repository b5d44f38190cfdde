"""Values written to files and read back: the same, or an error that names the column."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DayTimeIntervalType, StructType, TimeType

from tests.unit.objects.folders import QUERY, options_of, rows, store_at
from tests.values import NESTED, VALUES, comparable
from tutorial_pkg.builder import FunctionError, RowPacker, SinkContext
from tutorial_pkg.connectors.arrow_columns import check_flat
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.objects.sink import ObjectUpload
from tutorial_pkg.connectors.objects.writing import ObjectDraft

DEEP, SPAN, TIME = (kind.simpleString() for kind in (*NESTED, DayTimeIntervalType(), TimeType()))
REFUSED: dict[str, set[str]] = {
    "jsonl": {"float", "double", "binary", DEEP, SPAN, TIME},  # JSON has no NaN and no Infinity
    "csv": {"binary", DEEP},
    "avro": {SPAN, TIME},
    "parquet": set(),
}


@pytest.mark.parametrize("form", ["jsonl", "csv", "avro", "parquet"])
def test_extremes_survive_a_round_trip(tmp_path: Path, form: str) -> None:
    refused = set()
    options = options_of(tmp_path, WRITE, format=form)
    for kind, values in {**VALUES, **NESTED}.items():
        schema = StructType().add("the column", kind).add("n", "long")
        written = [{"the column": value, "n": n} for n, value in enumerate([*values, None])]
        batch = RowPacker(schema).pack(written)
        try:
            check_flat(form, schema)
            draft = ObjectDraft(options, batch.schema)
            draft.write(batch)
            draft.finish()
            store_at(tmp_path).write(f"a.{form}", draft.file)
            read = rows(tmp_path, schema, format=form)
        except (ValueError, FunctionError) as error:
            assert "`the column`" in str(error)
            refused.add(kind.simpleString())
        else:
            assert comparable(read) == comparable(written)
    assert refused == REFUSED[form]


@pytest.mark.parametrize("form", ["jsonl", "avro"])
def test_times_inside_values_are_written_in_utc(tmp_path: Path, form: str) -> None:
    """Spark passes them in the session's time zone."""
    at, kind = datetime(2026, 1, 2, tzinfo=UTC), pa.timestamp("us", "Europe/Berlin")
    row, kinds = {"st": {"t": at}, "l": [at]}, {"st": pa.struct([("t", kind)]), "l": pa.list_(kind)}
    upload = ObjectUpload(SinkContext(QUERY, 0, 0, options_of(tmp_path, WRITE, format=form)))
    upload.receive_batch(pa.RecordBatch.from_pylist([row], pa.schema(kinds.items())))
    upload.flush()
    [file] = tmp_path.glob("part-*")
    assert b"+01:00" not in file.read_bytes()
    schema = from_arrow_schema(pa.schema(kinds.items()))
    assert rows(tmp_path, schema, format=form) == [row]
