"""A sink's batches: repeated, new, or from a checkpoint that was set back."""

from __future__ import annotations

import pytest

from tutorial_pkg.core.batch_order import is_repeated


@pytest.mark.parametrize(
    ("batch", "last", "repeated"), [(0, None, False), (7, 6, False), (9, 6, False), (6, 6, True)]
)
def test_batch_is_new_or_repeated(batch: int, last: int | None, repeated: bool) -> None:
    assert is_repeated("table `t`", batch, last) is repeated


@pytest.mark.parametrize(("batch", "same"), [(5, True), (6, False)])
def test_set_back_checkpoint_is_an_error(batch: int, same: bool) -> None:
    with pytest.raises(ValueError, match="table `t` already has this query's batches up to 6"):
        is_repeated("table `t`", batch, 6, same)
