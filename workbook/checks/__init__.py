"""The checks of the exercises: each looks at an answer and says what is right, or what to do next.

A check is named after its notebook and exercise. It returns a `Verdict`, which a cell shows as
one line. It never raises because of a wrong answer.
"""

from workbook.checks.notebook_00 import check_00_1
from workbook.checks.notebook_01 import check_01_1, check_01_2
from workbook.checks.notebook_02 import check_02_1, check_02_2
from workbook.checks.notebook_03 import check_03_1, check_03_2
from workbook.checks.notebook_04 import check_04_1, check_04_2
from workbook.checks.notebook_05 import check_05_1, check_05_2
from workbook.checks.notebook_06 import a_heartbeat, check_06_1, check_06_2
from workbook.checks.notebook_07 import check_07_1, check_07_2
from workbook.checks.notebook_08 import check_08_1, check_08_2
from workbook.checks.notebook_09 import check_09_1, check_09_2
from workbook.checks.notebook_10 import check_10_1, check_10_2
from workbook.checks.notebook_11 import check_11_1, check_11_2
from workbook.checks.notebook_12 import (
    check_12_1,
    check_12_2,
    check_12_3,
    check_12_4,
    check_12_5,
)
from workbook.checks.notebook_13 import check_13_1, check_13_2, check_13_3
from workbook.checks.notebook_14 import check_14_1
from workbook.checks.notebook_15 import check_15_1, check_15_2
from workbook.checks.notebook_16 import check_16_1, check_16_2
from workbook.checks.notebook_17 import check_17_1, check_17_2
from workbook.checks.notebook_18 import check_18_1, check_18_2, check_18_3
from workbook.checks.notebook_19 import check_19_1
from workbook.checks.notebook_20 import check_20_1, check_20_2
from workbook.checks.notebook_21 import check_21_1, check_21_2, check_21_3
from workbook.checks.verdict import Verdict, the_solution
