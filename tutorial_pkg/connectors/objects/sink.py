"""Rows into objects: tasks upload them, and one manifest for the batch makes them count.

A row's way: `Upload` (a draft on the task's disk, then an object that does not count yet) →
`publish` (the manifest, which only one driver can write) → readers. What no manifest names is
removed later.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

from tutorial_pkg.builder import BatchContext, SinkBuilder, SinkContext, TargetContext
from tutorial_pkg.connectors.arrow_columns import by_values, check_flat, in_utc
from tutorial_pkg.connectors.objects.avro import avro_schema
from tutorial_pkg.connectors.objects.manifests import FOLDER, MARK, log_of
from tutorial_pkg.connectors.objects.options import FORMAT, WRITE
from tutorial_pkg.connectors.objects.writing import Draft
from tutorial_pkg.connectors.store import Found, Store, log, visible

NOT_IN_FOLDERS = set("\"#%'*/:=?\\{[]^\x7f") | set(map(chr, range(32)))  # as Spark has it
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # what other tools take for a null
AWAITED = 10  # batches later, no task of a dead driver is at work any more

# ---- In the tasks --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uploaded:
    """What a task has written: `note` says so in the store."""

    note: str
    objects: tuple[Found, ...]
    rows: int


class Upload:
    """One task's rows: an object for each folder."""

    def __init__(self, context: SinkContext) -> None:
        self._context, self._id = context, uuid.uuid4().hex
        self._drafts: dict[str, Draft] = {}
        self._files, self._rows = ExitStack(), 0

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        batch = in_utc(batch)
        self._rows += batch.num_rows
        columns = self._context.options.partitionBy
        for values, rows in by_values(batch, columns):
            folder = "".join(map(_folder, columns, values))
            if folder not in self._drafts:
                draft = Draft(self._context.options, batch.schema)
                self._drafts[folder] = draft
                self._files.callback(draft.file.close)
            self._drafts[folder].add(rows)

    def flush(self) -> Uploaded | None:
        """Says what it is about to write before it does. `None` for a task without rows."""
        if not self._rows:
            return None
        context, options = self._context, self._context.options
        store = Store(options, options.path)
        name = f"{context.query[:8]}-{context.batch}-{context.index}-{self._id}.{options.format}"
        keys = {f"{folder}part-{name}": draft for folder, draft in self._drafts.items()}
        note = f"{FOLDER}/{context.query}/open/{context.batch:020}-{self._id}"
        store.write(note, json.dumps(list(keys)).encode())
        objects = tuple(store.write(key, draft.finish()) for key, draft in keys.items())
        return Uploaded(note, objects, self._rows)

    def close(self) -> None:
        self._files.close()


def _folder(name: str, value: Any) -> str:
    """As in other tools; the column is in the files, too."""
    text = (
        str(value).lower()
        if isinstance(value, bool)
        else NO_VALUE
        if value in (None, "")
        else str(value)
    )
    return f"{_escaped(name)}={_escaped(text)}/"


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in NOT_IN_FOLDERS else each for each in text)


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, handles: Sequence[Uploaded | None]) -> None:
    """Write the manifest, unless it is there: after a crash, or by a driver given up for dead."""
    uploaded = [each for each in handles if each]
    if not uploaded:
        return
    store = Store(context.options, context.options.path)
    manifests, rows = log_of(store, context.query), sum(each.rows for each in uploaded)
    objects = [found for each in uploaded for found in each.objects]
    if manifests.append({"number": context.batch, "rows": rows, "objects": objects}):
        manifests.join()
    else:
        _check_repeated(context, rows, manifests.read(context.batch))
    try:
        _sweep(store, context)
    except (ConnectionError, PermissionError) as error:  # the rows are there; next time, perhaps
        log.warning("format `%s`: what dead tasks have left is not removed: %s", FORMAT, error)


def _check_repeated(context: BatchContext, rows: int, manifest: Any) -> None:
    """A batch comes again with as many rows, or its checkpoint was set back."""
    if manifest["rows"] != rows:
        raise RuntimeError(
            f"{context.options.path} has batch {context.batch} of this query with "
            f"{manifest['rows']} rows, and now it comes with {rows}: its checkpoint was set back. "
            "Written again, rows might be there twice; left out, some might be missing. Compare, "
            "then start with a new checkpoint"
        )


def _sweep(store: Store, context: BatchContext) -> None:
    """Remove what this query's tasks have written up to this batch, and no manifest names.

    There is no later chance for it to count. A task that nobody waits for may still upload: its
    note stays for some batches, and it is looked at again.
    """
    manifests = log_of(store, context.query)

    @cache
    def counting(batch: int) -> set[str]:
        manifest = manifests.read(batch) or {"objects": []}
        return {key for key, *_ in manifest["objects"]}

    for note in store.listed(f"{FOLDER}/{context.query}/open"):
        batch = int(note.key.rpartition("/")[2].partition("-")[0])
        if batch > context.batch:
            continue
        dead = [key for key in json.loads(store.read(note.key)) if key not in counting(batch)]
        store.delete(dead)
        if not dead or batch <= context.batch - AWAITED:
            store.delete([note.key])


# ---- The sink ------------------------------------------------------------------------------------


def check(context: TargetContext) -> None:
    """Raises `ValueError` for rows that do not fit, and for a folder with objects of others."""
    options, schema = context.options, context.schema
    check_flat(options.format, schema)
    if options.format == "avro":
        avro_schema(schema)
    kinds = {field.name: field.dataType for field in schema}
    for name in options.partitionBy:
        kind = kinds.get(name)
        if not isinstance(kind, StringType | IntegralType | DateType | BooleanType):
            what = kind.simpleString() if kind else "missing"
            raise ValueError(
                f"option `partitionBy` takes columns of texts, whole numbers, dates and truths; "
                f"`{name}` is {what}"
            )
    _mark(Store(options, options.path, make=True))


def _mark(store: Store) -> None:
    if store.exists(MARK):
        return
    if next(visible(store.listed()), None):
        raise ValueError(
            f"{store.url} has objects that no manifest names, and readers would not see them any "
            "more; choose a folder that is empty, or that this sink has written"
        )
    store.create(MARK, b"Only objects that a manifest names count.\n")


sink = (
    SinkBuilder.stream(FORMAT, create=Upload)
    .retry(seconds=0)  # it waits by itself
    .receive_batch(Upload.receive_batch)
    .flush(Upload.flush)
    .destroy(Upload.close)
    .commit(publish)
    .check(check)
    .also_batch()
    .options(*WRITE)
    .build()
)
