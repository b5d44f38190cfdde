"""Whether a sink has written a batch already, or its query's checkpoint was set back."""

from __future__ import annotations


def is_repeated(target: str, batch: int, last: int | None, same: bool = True) -> bool:
    """Return whether `batch` repeats the `last` one that the sink has recorded for its query.

    Spark repeats the last batch after a crash, never an earlier one. Raises `ValueError`, which
    names the `target`, if the number went back, or a repeated batch is not the `same`, because it
    has a different number of rows, for example: then the checkpoint was set back, or copied.
    """
    if last is None or batch > last:
        return False
    if batch == last and same:
        return True
    raise ValueError(
        f"{target} already has this query's batches up to {last}, and batch {batch} was planned "
        "again: the checkpoint was set back. Writing it could duplicate rows, skipping it could "
        "lose rows. Compare, then start with a new checkpoint"
    )
