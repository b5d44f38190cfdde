"""Rows into objects: tasks upload them, and one manifest for the batch makes them count."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

from tutorial_pkg.builder import BatchContext, RowPacker, SinkBuilder, SinkContext, TargetContext
from tutorial_pkg.connectors.arrow_columns import by_partition, check_flat, in_utc
from tutorial_pkg.connectors.objects.avro import avro_schema
from tutorial_pkg.connectors.objects.object_log import FOLDER, MARK, ObjectLog
from tutorial_pkg.connectors.objects.options import FORMAT, WRITE
from tutorial_pkg.connectors.objects.writing import ObjectDraft
from tutorial_pkg.connectors.store import ObjectInfo, Store, log, visible
from tutorial_pkg.core.batch_order import is_repeated

NOT_IN_FOLDERS = set("\"#%'*/:=?\\{[]^\x7f") | set(map(chr, range(32)))  # as in Spark
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # other tools read it as null
SLOW_BATCHES = 10  # after so many later batches, no task of a dead driver is still writing

# ---- In the tasks --------------------------------------------------------------------------------


Uploaded = tuple[tuple[ObjectInfo, ...], int]  # what a task has written, and how many rows


class ObjectUpload:
    """One task's rows: an object for each folder."""

    def __init__(self, context: SinkContext) -> None:
        self._context, self._id = context, uuid.uuid4().hex
        self._drafts: dict[str, ObjectDraft] = {}
        self._rows = 0

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        batch, columns = in_utc(batch), self._context.options.partitionBy
        self._rows += batch.num_rows
        for texts, rows in by_partition(batch, columns):
            folder = "".join(map(_folder, columns, texts))
            if folder not in self._drafts:
                self._drafts[folder] = ObjectDraft(self._context.options, batch.schema)
            self._drafts[folder].write(rows)

    def flush(self) -> Uploaded | None:
        """Announce the task's objects, then write them. Returns None for a task without rows."""
        if not self._drafts:
            return None
        context, options = self._context, self._context.options
        store = Store(options, options.path)
        name = f"{context.query[:8]}-{context.batch}-{context.index}-{self._id}.{options.format}"
        drafts = {f"{folder}part-{name}": draft for folder, draft in self._drafts.items()}
        note = f"{FOLDER}/{context.query}/open/{context.batch:020}-{self._id}"
        store.write(note, json.dumps(list(drafts)).encode())
        for draft in drafts.values():
            draft.finish()
        return tuple(store.write(key, draft.file) for key, draft in drafts.items()), self._rows

    def close(self) -> None:
        for draft in self._drafts.values():
            draft.file.close()


def _folder(name: str, text: str | None) -> str:
    """Return `name=value/` as other tools write it. The column is in the files, too."""
    return f"{_escape(name)}={_escape(text or NO_VALUE)}/"


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in NOT_IN_FOLDERS else char for char in text)


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, handles: Sequence[Uploaded | None]) -> None:
    """Write the manifest, unless it exists: after a crash, or from another driver of the query."""
    store, batch = Store(context.options, context.options.path), context.batch
    folder = f"{FOLDER}/{context.query}"
    manifests, uploaded = ObjectLog(store, folder), [handle for handle in handles if handle]
    objects = [info for infos, _ in uploaded for info in infos]
    record = {"number": batch, "rows": sum(rows for _, rows in uploaded), "objects": objects}
    later = [manifest["number"] for manifest in manifests.after(batch)]
    is_repeated(store.url, batch, max(later, default=None))
    if uploaded and manifests.append(record):
        manifests.join()
    elif manifest := manifests.read(batch):
        is_repeated(store.url, batch, batch, manifest["rows"] == record["rows"])
    try:
        if uploaded:
            _remove_leftovers(store, folder, batch)
    except (ConnectionError, PermissionError) as error:  # the batch is complete all the same
        log.warning("format `%s`: leftovers of dead tasks stay for now: %s", FORMAT, error)


def _remove_leftovers(store: Store, folder: str, newest: int) -> None:
    """Remove what this query's tasks wrote up to this batch, and no manifest names.

    A slow task may still upload. So its note stays for some batches, and is checked again.
    """
    manifests, published = ObjectLog(store, folder), dict[int, set[str]]()
    for note in store.listing(f"{folder}/open"):
        batch = int(note.key.rpartition("/")[2].partition("-")[0])
        if batch > newest:
            break
        if batch not in published:
            manifest = manifests.read(batch) or {"objects": []}
            published[batch] = {key for key, *_ in manifest["objects"]}
        dead = [key for key in json.loads(store.read(note.key)) if key not in published[batch]]
        store.delete(dead)
        if not dead or batch <= newest - SLOW_BATCHES:
            store.delete([note.key])


# ---- The sink ------------------------------------------------------------------------------------


def check(context: TargetContext) -> None:
    """Raise `ValueError` for rows that do not fit, and for an unsuitable folder or store."""
    options, schema = context.options, context.schema
    check_flat(options.format, schema)
    if options.format == "avro":
        avro_schema(RowPacker(schema).arrow_schema)
    fit = StringType | IntegralType | DateType | BooleanType
    names = {field.name for field in schema if isinstance(field.dataType, fit)}
    if unfit := sorted(set(options.partitionBy) - names):
        raise ValueError(
            "option `partitionBy` takes columns of strings, integers, dates and booleans, got "
            f"{unfit} of {schema.simpleString()}"
        )
    store = Store(options, options.path, make=True)
    store.check_conditional_writes(FOLDER)
    _mark(store)


def _mark(store: Store) -> None:
    if store.find(MARK):
        return
    if visible(store.listing()):
        raise ValueError(
            f"{store.url} has objects that no manifest names, and readers would ignore them from "
            "now on; choose an empty folder, or one that this sink has written"
        )
    store.create(MARK, b"Only objects that a manifest names count.\n")


sink = (
    SinkBuilder.stream(FORMAT, create=ObjectUpload)
    .retry(seconds=0)  # the store repeats single requests, also for tasks with many rows
    .receive_batch(ObjectUpload.receive_batch)
    .flush(ObjectUpload.flush)
    .destroy(ObjectUpload.close)
    .commit(publish)
    .check(check)
    .also_batch()
    .options(*WRITE)
    .build()
)
