"""A domain as an HTML table, for notebooks."""

from html import escape

from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.domain import Domain
from mrf_matrix.domain.errors import SHOWN
from mrf_matrix.domain.readable import readable_count

MOST_ROWS = 50


def domain_html(domain: Domain) -> str:
    """Return a table of the attributes with their number of codes and first labels."""
    rows = [attribute_row(attribute) for attribute in domain.attributes[:MOST_ROWS]]
    hidden = domain.n_attributes - len(rows)
    if hidden:
        rows.append(f"<tr><td colspan=3>{hidden} more</td></tr>")
    if domain.target is not None:
        rows.append(attribute_row(domain.target, " (target)"))
    cells = readable_count(domain.size)
    return (
        f"<table><caption>{domain.n_attributes} attributes, {cells} cells</caption>"
        "<thead><tr><th>attribute</th><th>codes</th><th>labels</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def attribute_row(attribute: Attribute, note: str = "") -> str:
    """Return one attribute as a table row."""
    shown = [str(label) for label in attribute.labels[: 2 * SHOWN]]
    text = " · ".join(shown) + (" · ..." if attribute.size > len(shown) else "")
    return (
        f"<tr><td>{escape(attribute.name)}{note}</td><td>{attribute.size}</td>"
        f"<td>{escape(text)}</td></tr>"
    )
