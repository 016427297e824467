"""What attributes tell and how sure that is, or the labels of cells: read off the release."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.text import condition
from mrf_matrix.posterior import LabelPosterior
from mrf_matrix.posterior.effects import Term, terms
from mrf_matrix.posterior.whole_effects import Banded, effect_of
from mrf_matrix.reports.drawings import bars, effect_strip
from mrf_matrix.reports.page import Section

TITLE, TITLE_OF_LABELS = "Strength and effect of attributes", "Labels of cells"
MOST_SHOWN = 6
MOST_CODES = 30
LEVEL, HALF_WIDTH = 0.95, 1.96
"""Of bands, and how many standard deviations they are wide to each side."""


def strength_section(model: Any, domain: Domain) -> Section:
    """Return strengths of the strongest terms, and the effects of the strongest attributes."""
    posterior = getattr(model, "posterior_", None)
    if posterior is None:
        return Section(TITLE, ("This kind of model votes by trees: it has no effect a attribute.",))
    classes: list[Hashable] = model.classes_.tolist()
    if isinstance(posterior, LabelPosterior):
        tree: Any = posterior.partition
        return labels_section(tree, posterior, classes, domain)
    if domain.n_classes == 1:
        return Section(TITLE, ("The domain names one class, which is every answer.",))
    last = domain.n_classes - 1
    known = (one for one in terms(posterior, last, 0) if one.deviations.any())
    found = sorted(known, key=lambda one: -one.size)
    unit = f"log odds of {classes[last]} against {classes[0]}"
    strengths = bars([(_name(domain, one), one.size) for one in found], unit)
    singles = [one.attributes for one in found if len(one.attributes) == 1][:MOST_SHOWN]
    effects = ((i, effect_of(posterior, (i,), (last, 0), LEVEL)) for (i,) in singles)
    strips = tuple(_strip(domain, i, of, unit) for i, of in effects if of is not None)
    words = (
        f"How far each attribute, or several together, move the {unit}: root mean square over the "
        "records as the release estimates them. All of it is read off the release and costs "
        "nothing.",
        "Below, the effect of each code of the strongest: the dot is the estimate; the bar holds "
        "it in 19 of 20 cases, by noise and by the drawing of records, under the model. A bar that "
        "crosses the line leaves open which way the code speaks.",
    )
    rows = tuple((_name(domain, one), f"{one.size:.3g}", _widest(one)) for one in found[:12])
    header = ("attribute", "strength", "widest band")
    return Section(TITLE, words, rows, header, (strengths, *strips))


def _strip(domain: Domain, place: int, found: Banded, unit: str) -> str:
    attribute = domain.attributes[place]
    labels = [str(label) for label in attribute.labels]
    kept = np.arange(len(labels))
    if len(labels) > MOST_CODES:
        ratios = np.abs(found.log_odds) / np.maximum(found.inward, 1e-300)
        kept = np.sort(np.argsort(-ratios, kind="stable")[:MOST_CODES])
    some = f", {len(kept)} clearest of {len(labels)}" if len(kept) < len(labels) else ""
    return effect_strip(
        attribute.name + some,
        [labels[i] for i in kept],
        found.log_odds[kept],
        (found.below[kept], found.above[kept]),
        unit,
    )


def _widest(term: Term) -> str:
    return f"±{HALF_WIDTH * float(term.deviations.max()):.2g}"


def _name(domain: Domain, term: Term) -> str:
    return " × ".join(domain.names[i] for i in term.attributes)


def labels_section(
    tree: LabelTree, posterior: LabelPosterior, classes: Sequence[Hashable], domain: Domain
) -> Section:
    """Return the cells of a tree of labels, in words, with their labels."""
    forest, cells = tree.forest(domain)
    rows = [
        (_path(forest, node), str(classes[posterior.labels[cell]]))
        for node, cell in zip(forest.leaves.tolist(), cells, strict=True)
    ]
    sure = [float(posterior.evidence[cell].probabilities.max()) for cell in cells]
    if tree.counts is None:
        words = (
            "All that the release says: these cells, and the class of each. A label is "
            f"right with probability {sure[0]:.2f}, under a public prior of the "
            "shares of classes in a cell. It is the same for all of them: nothing says of which "
            "label one may be surer.",
        )
        return Section(TITLE_OF_LABELS, words, tuple(rows), ("cell", "label"))
    words = (
        "All that the release says: these cells, the class of each, and noisy counts of its "
        "records by class, from which follows how likely it is, under a public prior.",
    )
    with_shares = tuple((*row, f"{one:.2f}") for row, one in zip(rows, sure, strict=True))
    return Section(TITLE_OF_LABELS, words, with_shares, ("cell", "label", "probability"))


def _path(tree: Forest, node: int) -> str:
    """Return what leads to a node, in words."""
    said: list[str] = []
    while (above := int(tree.parent[node])) >= 0:
        said.insert(0, condition(tree, above, node - int(tree.first_child[above])))
        node = above
    return ", ".join(said) or "all records"
