"""
The folders at the root are subpackages of `mulligan`; pyproject.toml and the links in mulligan/
must name each of them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_PACKAGED = {"bench", "build", "dist", "docs", "examples", "mulligan", "tests"}


def folders_on_disk() -> dict[str, str]:
    """
    Map the import name of every package folder at the root to its path.
    """
    top = {p.parent for p in ROOT.glob("[a-z]*/__init__.py")} - {ROOT / n for n in NOT_PACKAGED}
    folders = [init.parent for folder in top for init in folder.rglob("__init__.py")]
    paths = [folder.relative_to(ROOT).as_posix() for folder in folders]
    return {f"mulligan.{path.replace('/', '.')}": path for path in paths}


def packages_inside() -> set[str]:
    """
    The subpackages that lie in mulligan/ itself.
    """
    inits = (ROOT / "mulligan").glob("*/__init__.py")
    return {f"mulligan.{init.parent.name}" for init in inits if not init.parent.is_symlink()}


def test_pyproject_names_every_package() -> None:
    """
    A folder that is missing from pyproject.toml would work in an editable install, and be left out
    of the wheel.
    """
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]

    named = {"mulligan", *packages_inside(), *folders_on_disk()}
    assert named == set(setuptools["packages"])
    assert folders_on_disk() == setuptools["package-dir"]


def test_mulligan_links_to_every_folder() -> None:
    """
    Type checkers find mulligan.events only through mulligan/events.
    """
    links = {p.name: p.resolve() for p in (ROOT / "mulligan").iterdir() if p.is_symlink()}

    assert {name: ROOT / name for name in folders_on_disk().values() if "/" not in name} == links


def test_every_file_that_is_no_code_is_packaged() -> None:
    """
    A page's script or a list of phrases that no pattern names would be missing from the wheel only.
    """
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]
    folders = {name: ROOT / path for name, path in folders_on_disk().items()}
    named = {
        found
        for package, patterns in data.items()
        for pattern in patterns
        for found in (folders.get(package, ROOT / package)).glob(pattern)
    }
    tops = [folder for name, folder in folders.items() if name.count(".") == 1]
    files = {file for top in tops for file in top.rglob("*") if file.is_file()}
    code = {file for file in files if file.suffix in (".py", ".pyc")}
    assert files - code - named == set()
