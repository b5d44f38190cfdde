"""Two pictures to play with, next to the text that they explain: the watermark, and the crash.

They show what real queries did, not a model of it: `python -m workbook.explainers`
runs these queries, and stores what came out in `watermark.json` and `crash.json`. The drawing is
in `watermark.js` and `crash.js`, which run in the browser and need nothing else.
"""

from workbook.explainers.crash import crash_explainer
from workbook.explainers.watermark import watermark_explainer

__all__ = ["crash_explainer", "watermark_explainer"]
