"""An environment for each version of Spark, below `.work/versions`, kept between runs.

    python -m tests.versions.environments 4.0 4.2    # make these now

A *lean* one has what the package cannot do without, pyspark and pyarrow. A *whole* one has the rest
of the project's own environment behind that, and the project's folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.java import find_java

ROOT = Path(__file__).parents[2]
OWN = Path(sysconfig.get_path("purelib"))
OLDER = ("4.0", "4.1", "4.2")  # of each the newest
NEWEST = "4.3"  # the project's own
NOT_LOWEST = {"workbook", "dev", "book"}  # extras for those who work on the project
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python")
OTHERS = {"pyspark-data-sources": "0.1.11", "faker": "23.3.0"}  # other people's
QUIET = ("install", "--quiet", "--no-compile")


def lean_python(spark: str) -> Path:
    """The Python of an environment with this Spark and pyarrow, and nothing else."""
    folder = work_dir("versions") / f"lean-{spark}"
    with _made(folder) as new:
        if new and spark == NEWEST:
            link(_python(folder), "pyspark", "py4j", "pyarrow")
        elif new:
            install(_python(folder), f"pyspark=={spark}.*", f"pyarrow=={version('pyarrow')}")
    return _python(folder)


def whole_python(spark: str) -> Path:
    """The Python of an environment in which the project's tests run with this Spark."""
    if spark == NEWEST:
        return Path(sys.executable)
    folder = work_dir("versions") / f"whole-{spark}"
    lean = lean_python(spark)
    with _made(folder) as new:
        if new:
            see(_python(folder), packages_of(lean), OWN, ROOT, ROOT / "kit")
            for program in lean.parent.glob("*spark*"):  # spark-submit and what it calls
                (folder / "bin" / program.name).symlink_to(program)
    return _python(folder)


def lowest_python() -> Path:
    """Return the Python of an environment with the lowest version of all that the extras name."""
    folder = work_dir("versions") / "lowest"
    with _made(folder) as new:
        if new:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            names = sorted({*project["optional-dependencies"]} - NOT_LOWEST)
            extras = [f"--extra={name}" for name in names]
            lowest = (OWN.parents[2] / "bin" / "uv", "pip", "install", "--quiet")
            lowest += ("--python", _python(folder), "--resolution", "lowest-direct")
            what = [*extras, "-r", ROOT / "pyproject.toml", f"pyspark=={NEWEST}.*"]
            subprocess.run([*map(str, [*lowest, *what])], check=True, timeout=1800)
            see(_python(folder), OWN, ROOT, ROOT / "kit")
    return _python(folder)


def environment_like(lean: Path, folder: Path, wheel: Path) -> Path:
    """The Python of a new environment with this wheel, which sees what `lean` has."""
    venv.create(folder, clear=True)
    see(_python(folder), packages_of(lean))
    install(_python(folder), "--no-deps", "--no-index", wheel)
    return _python(folder)


def kit_python(spark: str, folder: Path) -> Path:
    """The Python of a new environment with the kit, what it needs, and nothing else of ours."""
    python = environment_like(lean_python(spark), folder, built_wheel(folder.parent / "kit", "kit"))
    link(python, "psutil")
    return python


def other_packages() -> Path:
    """A folder with other people's formats, and what they need beside pyspark and pyarrow."""
    folder = work_dir("conformance", "others")
    if not (folder / "done").exists():
        pip = (sys.executable, "-m", "pip", *QUIET, "--upgrade", "--target", folder)
        wanted = [f"{name}=={number}" for name, number in OTHERS.items()]
        subprocess.run([*pip, "--no-deps", *wanted], check=True)
        subprocess.run([*pip, "requests", "python-dateutil"], check=True)
        (folder / "done").touch()
    return folder


def examined_by_the_kit(python: Path, what: str, *only: str) -> dict[str, str]:
    """What its command says of a source in `others.py`: each promise with its mark."""
    command = [python, "-m", "spark_connector_tests", f"others:{what}"]
    command += ["--session", "others:session"]
    settings = {"PYTHONPATH": str(other_packages()), "PYSPARK_PYTHON": str(python)}
    settings["JAVA_HOME"] = str(find_java().home)
    told = subprocess.run(
        [*command, *only],
        cwd=Path(__file__).parent,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return {name: mark for mark, name in re.findall(r"^  (\S) (\w+):", told.stdout, re.M)}


def built_wheel(folder: Path, part: str = ".") -> Path:
    """Built from a copy of the project in a new `folder`, because a build leaves folders behind."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "notebooks")
    shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)
    build = ("wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    subprocess.run([*pip, *build, f"./{part}"], cwd=folder, check=True, timeout=300)
    [built] = folder.glob("*.whl")
    return built


def install(python: Path, *what: object) -> None:
    subprocess.run([*PIP, python, *QUIET, *map(str, what)], check=True, timeout=1800)


def see(python: Path, *folders: Path) -> None:
    """Let it find what is in these folders, the first one first, behind what is its own."""
    (packages_of(python) / "behind.pth").write_text("".join(f"{folder}\n" for folder in folders))


def packages_of(python: Path) -> Path:
    [packages] = python.parents[1].glob("lib/python*/site-packages")
    return packages


def spark_of(python: Path) -> str:
    """The version of PySpark that this Python has."""
    ask = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()


def link(python: Path, *names: str) -> None:
    """Let it have packages of the project's own environment, without fetching them again."""
    for name in names:
        for entry in (OWN / name, *OWN.glob(f"{name}.libs"), *OWN.glob(f"{name}-*.dist-info")):
            (packages_of(python) / entry.name).symlink_to(entry)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[bool]:
    """Whether it is new, and to be filled within; of several processes one makes it."""
    done = folder / "done"
    with open(work_dir("versions") / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if new := not done.exists():
            venv.create(folder, clear=True)
        yield new
        done.touch()


if __name__ == "__main__":
    for spark in sys.argv[1:] or (*OLDER, NEWEST):
        print(spark, spark_of(lean_python(spark)), whole_python(spark), flush=True)
