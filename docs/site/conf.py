"""
The site's configuration for Sphinx; `make docs` builds it into `build/docs`.

Its pages are the repository's Markdown files, under the paths that they have there, so that
relative links lead to the same places on the site and on a forge. Pages under `docs/reference/`
go on, on the site, with what `reference` makes of the code.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

import contents  # noqa: E402 - beside this file
import docstrings  # noqa: E402
import reference  # noqa: E402

from mulligan import __version__  # noqa: E402

project = "mulligan"
version = release = __version__
project_copyright = "the authors of mulligan"
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc"]

include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/reference/*.md",
]
exclude_patterns = [
    f"{path.name}/**" for path in ROOT.iterdir() if path.is_dir() and path.name != "docs"
]

myst_heading_anchors = 3
suppress_warnings = [
    "myst.header"
]  # a docstring's or an outline's first heading may be of any level
default_role = "literal"  # docstrings say `name`, as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries = False

html_theme = "furo"
html_title = f"mulligan {version}"
html_extra_path = ["html"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Have pages go on with what is made of the code, and read docstrings as Markdown's indents."""
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", docstrings.process)


def _complete(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        source[0] += contents.trees(source[0])
    elif docname in reference.PAGES:
        source[0] += "\n" + reference.PAGES[docname]()
