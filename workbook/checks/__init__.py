"""The checks of the exercises: each looks at an answer and says what is right, or what to do next.

`check_09_2` belongs to exercise 2 of notebook 09. It returns a `Verdict`, which a cell shows as one
line, and never raises because of a wrong answer.

- `verdict`: what all checks share, and how a message is built
- `trial`: a learner's functions alone, in a real query that is restarted, or with the kit
- `crashes`: a learner's store, killed in every line
- `basics` (00–08), `connectors` (09–12), `systems` (14–22), `capstone` (13): the checks
"""

from workbook.checks import basics, capstone, connectors, systems
from workbook.checks.verdict import Verdict as Verdict
from workbook.checks.verdict import the_solution as the_solution

for _module in (basics, connectors, systems, capstone):
    globals().update({name: c for name, c in vars(_module).items() if name.startswith("check_")})
