"""Takes the kit out of the package: its modules under a name of their own, side by side."""

import re
import shutil
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "tutorial_pkg"
KIT = HERE / "spark_connector_tests"
BELOW = (
    "core.errors",
    "core.extras",
    "core.spark_versions",
    "core.waiting",
    "processes.query_process",
)


def renamed(text: str) -> str:
    """`tutorial_pkg.testing.trial` is `spark_connector_tests.trial`, and so are those below it."""
    for name in BELOW:
        text = text.replace(f"tutorial_pkg.{name}", f"{KIT.name}.{name.rpartition('.')[2]}")
    text = text.replace("tutorial_pkg.testing", KIT.name)
    return text.replace("python -m tutorial_pkg examine", f"python -m {KIT.name}")


def take() -> None:
    """Once; an archive of the sources has them already."""
    if not PACKAGE.exists():
        return
    shutil.rmtree(KIT, ignore_errors=True)
    KIT.mkdir()
    below = [PACKAGE / f"{name.replace('.', '/')}.py" for name in BELOW]
    for file in (*PACKAGE.glob("testing/*.py"), *below):
        (KIT / file.name).write_text(renamed(file.read_text()))
    [version] = re.findall(r"^__version__ = .*$", (PACKAGE / "__init__.py").read_text(), re.M)
    with (KIT / "__init__.py").open("a") as names:
        names.write(f"\n{version}\n")


take()
setup()
