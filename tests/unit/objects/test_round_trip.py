"""Values written to files and read back: the same, or an error that names the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume
from pyspark.sql.types import StructType

from tests.properties import EXAMPLES, KINDS, holds, same, structs, typed
from tests.unit.objects.folders import options_of, rows
from tutorial_pkg.builder import FunctionError, RowPacker
from tutorial_pkg.connectors.arrow_columns import check_flat
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.objects.writing import ObjectDraft


@EXAMPLES
@pytest.mark.parametrize("form", ["jsonl", "csv", "avro", "parquet"])
def test_rows_survive_a_round_trip(tmp_path: Path, form: str, examples: int) -> None:
    def check(table: tuple[StructType, list[dict[str, Any] | None]]) -> None:
        schema, written = table[0], [row for row in table[1] if row is not None]
        assume(written)
        batch = RowPacker(schema).pack(written)
        options = options_of(tmp_path, WRITE, format=form)
        try:
            check_flat(form, schema)
            draft = ObjectDraft(options, batch.schema)
            draft.add(batch)
            (tmp_path / f"a.{form}").write_bytes(draft.finish().read())
            read = rows(tmp_path, schema, format=form)
        except (ValueError, FunctionError) as error:
            assert any(f"`{name}" in str(error) for name in schema.names), error
        else:
            assert same(read, written)

    holds(check, examples, typed(structs(KINDS)))
