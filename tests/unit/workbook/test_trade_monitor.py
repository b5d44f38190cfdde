"""The trade monitor's lines, read back while they are written, and the totals' files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import matplotlib

from tutorial_pkg.workbook.trade_monitor import draw_counts, results
from tutorial_pkg.workbook.trade_totals import expected, totals, trades_in

matplotlib.use("Agg")


def test_whole_lines_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "data.0.csv").write_text("1583309377078,0.5,TREE 1000 7\n1583309377078,0.5,SALT 10")
    (tmp_path / "data.1.csv").write_text("1583309377078,0.5,SALT 1010 8\n")
    found = results(tmp_path)
    assert found == {
        ("TREE", datetime.fromtimestamp(1000, UTC)): 7,
        ("SALT", datetime.fromtimestamp(1010, UTC)): 8,
    }
    lines = draw_counts(found).axes[0].get_lines()
    assert [(line.get_label(), *line.get_ydata()) for line in lines] == [("SALT", 8), ("TREE", 7)]


def test_nothing_yet() -> None:
    assert draw_counts({}).axes[0].get_legend() is None


def test_the_newest_totals_count(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number, trades in ((9, 2), (10, 5)):
        rows = [{"ticker": "TREE", "trades": trades, "shares": 9 * trades}]
        (tmp_path / "out" / f"{number:06}.json").write_text(json.dumps(rows))
    assert totals(tmp_path) == {"TREE": (5, 45)}
    assert trades_in(tmp_path) == 5
    assert sum(trades for trades, _ in expected(30).values()) == 60
