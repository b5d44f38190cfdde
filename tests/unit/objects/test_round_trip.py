"""Values written to files and read back: the same, or an error that names the column."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import DayTimeIntervalType, StructType, TimeType

from tests.unit.objects.folders import options_of, rows
from tests.values import NESTED, VALUES, comparable
from tutorial_pkg.builder import FunctionError, RowPacker
from tutorial_pkg.connectors.arrow_columns import check_flat
from tutorial_pkg.connectors.objects.options import WRITE
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
            draft.add(batch)
            (tmp_path / f"a.{form}").write_bytes(draft.finish().read())
            read = rows(tmp_path, schema, format=form)
        except (ValueError, FunctionError) as error:
            assert "`the column`" in str(error)
            refused.add(kind.simpleString())
        else:
            assert comparable(read) == comparable(written)
    assert refused == REFUSED[form]
