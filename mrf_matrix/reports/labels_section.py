"""Which cells a tree of labels has, and the label of each: read off the release."""

from collections.abc import Hashable, Sequence

from mrf_matrix.domain import Domain
from mrf_matrix.forests.sources.halves import Halves
from mrf_matrix.forests.text import condition
from mrf_matrix.posterior import LabelPosterior
from mrf_matrix.reports.page import Section

TITLE = "Labels of cells"


def labels_section(
    posterior: LabelPosterior, classes: Sequence[Hashable], domain: Domain
) -> Section:
    """Return the cells of a tree of labels, in words, with their labels."""
    halves = Halves(posterior.attributes, tuple(tuple(one.tolist()) for one in posterior.sides))
    tree, n_cut = halves.tree(domain), len(halves.attributes)
    rows = []
    for cell, label in enumerate(posterior.labels.ravel().tolist()):
        sides = [
            condition(tree, (1 << level) - 1, cell >> (n_cut - 1 - level) & 1)
            for level in range(n_cut)
        ]
        rows.append((", ".join(sides), str(classes[label])))
    words = (
        "All that was measured: the class that each of these cells was labelled with. A label is "
        f"right with probability {posterior.evidence.right:.2f}, under a public prior of the "
        "shares of classes in a cell. It is the same for all of them: nothing says of which label "
        "one may be surer.",
    )
    return Section(TITLE, words, tuple(rows), ("cell", "label"))
