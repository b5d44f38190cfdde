"""Whether a sink has written a batch already, or its query's checkpoint was set back."""

from __future__ import annotations


def is_repeated(target: str, batch: int, last: int | None, same: bool = True) -> bool:
    """Return whether `batch` repeats the last one that the sink has recorded for its query.

    Skip a repeated batch: it is written. Spark repeats the last batch after a crash, never an
    earlier one.

    Args:
        target: what has the record, for the error: "table `orders`".
        batch: the number of the batch that Spark wants to write now.
        last: the number of the last recorded batch; None if there is none.
        same: whether the repeated batch looks like the recorded one: it has as many rows, say.

    Raises `ValueError` if the number went back, or a repeated batch is not the same: then the
    checkpoint was restored from a backup, or copied.
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
