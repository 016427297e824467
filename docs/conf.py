"""Sphinx configuration. Build: sphinx-build -W --keep-going -b html docs docs/_build/html"""

import os
import re
import shutil
import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))


INDEX = (HERE / "api" / "index.md").read_text("utf-8")
ROOMS = re.findall(r"^   (mrf_matrix[.][\w.]+)$", INDEX, re.M)
"""What the API's index lists beside the two packages."""


def re_exported(package: str, *homes: str) -> dict[str, list[str]]:
    """Return the names of a package that others export and document."""
    names = set(import_module(package).__all__)
    there: set[str] = set().union(*(import_module(home).__all__ for home in homes))
    return {package: sorted(names & there)}


project = "mrf_matrix"
author = "the mrf_matrix authors"
copyright = "2026, the mrf_matrix authors"
version = release = installed_version("mrf-matrix")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build", "_extensions", "jupyter_execute"]
html_math_renderer = "mathml"
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 3

# Building the site executes the notebooks, each of which ends by asserting its claim: a claim that
# no longer holds fails the build. A notebook that has not changed comes from the cache.
os.environ.pop("MPLBACKEND", None)  # a notebook shows pictures by its own
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 600

# A page per part lists exactly what its __all__ exports.
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autosummary_context = {
    "documented_elsewhere": re_exported("strategies", "strategies.operators")
    | re_exported("mrf_matrix", *ROOMS)
}
autodoc_typehints = "none"  # the docstrings say the types in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "mrf_matrix"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}


def gather_notebooks() -> None:
    """Copy the notebooks beneath the sources, where Sphinx can see them."""
    target = HERE / "notebooks"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copy2(notebook, target / notebook.name)


gather_notebooks()
