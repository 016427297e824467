"""Mathematics drawn when the site is built: MathML, which browsers show without a script.

No file is fetched when a page is read, and formulas print and copy as they are shown. A command
that is not translated is a warning, which fails the build.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

log = logging.getLogger(__name__)
SPELLED = {r"\dotsc": r"\ldots", r"\tfrac": r"\frac", r"\lvert": "|", r"\rvert": "|"}
"""Commands of amsmath in words that the converter knows."""

BAR = re.compile(r"<mo(?: stretchy=\"true\")?>(&#x02016;|&#x0007C;|&#x0007c;)</mo>")
"""Bars of norms, which as operators of their own would stretch, each to another height."""


def mathml(node, display):
    """Return a formula as MathML."""
    source = node.astext()
    for word, known in SPELLED.items():
        source = source.replace(word, known)
    found = BAR.sub(r'<mo stretchy="false">\1</mo>', convert(source, display=display))
    if "\\" in found:
        log.warning("mathematics that is not translated: %s", node.astext(), location=node)
    return found


def inline(translator, node):
    """Write a formula in a line."""
    translator.body.append(f'<span class="math">{mathml(node, "inline")}</span>')
    raise nodes.SkipNode


def display(translator, node):
    """Write a formula on a line of its own, with its number where it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append(f"{mathml(node, 'block')}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx):
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
