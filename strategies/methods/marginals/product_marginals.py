"""Product marginals for unions of Kronecker products and Laplace noise, found by descents.

Short descents from two kinds of rows and from greedy designs of sets; the best goes on.
"""

import numpy as np

from strategies.bounds.unions.design import frames_fit, problem_union
from strategies.methods.family import Family, Search
from strategies.methods.marginals.joint_losses import shared_cells
from strategies.methods.marginals.product_designs import (
    ALL_SETS,
    MOST_SHARED,
    Forms,
    Start,
    descend,
    improved_by_designs,
    random_start,
    two_groups,
)
from strategies.methods.marginals.product_losses import ProductLosses
from strategies.operators import Array, Dense, JointMarginals, Operator, ProductMarginals
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion

BRIEFS = 14  # brief descents that all stages together take
FEWEST, MOST = 25, 150  # evaluations of a brief descent
LONG = 4  # brief descents that the last one takes
FAINT = 1e-4  # share of the largest weight below which a set is left out
WORTH = 1e-5  # relative loss that leaving sets out may cost
LONGEST = 300  # codes of an attribute up to which a descent has evaluations enough
STYLES = "random", "blocks"


def product_marginals_search(problem: Problem, search: Search) -> Operator:
    """Return the best product marginals found.

    Raises ValueError if the workload is no union of Kronecker products.
    """
    union = problem_union(problem)
    if union is None:
        raise ValueError(
            f"workload {problem.workload!r} is no union of Kronecker products over the same "
            f"attributes: expected a Stack of Kronecker."
        )
    whole = ProductLosses(union, np.arange(len(union.tables)))
    begun = [begin((whole,), search)]
    groups = grouped_forms(union, whole)
    if groups:
        begun.append(begin(groups, search))
    level, start, forms = min(begun, key=lambda one: one[0])
    steps = brief_steps(forms, search)
    if len(forms) == 1:
        level, start = improved_by_designs(forms[0], start, level, steps, search.generator)
    level, start = descend(forms, start, LONG * steps)
    start = without_faint_sets(forms, start, level)
    halves = np.split(start.x, np.cumsum([form.size for form in forms])[:-1])
    blocks = [as_tables(form, half) for form, half in zip(forms, halves, strict=True)]
    return blocks[0] if len(blocks) == 1 else JointMarginals(blocks)


def begin(forms: Forms, search: Search) -> tuple[float, Start, Forms]:
    """Return where brief descents from two kinds of rows end, the better one."""
    steps = brief_steps(forms, search)
    starts = [random_start(forms, style, search.generator) for style in STYLES]
    level, start = min((descend(forms, s, steps) for s in starts), key=lambda end: end[0])
    return level, start, forms


def brief_steps(forms: Forms, search: Search) -> int:
    """Return the evaluations of a brief descent that the work allows."""
    return min(MOST, max(FEWEST, int(search.work / BRIEFS / evaluation_seconds(forms))))


def grouped_forms(union: TableUnion, whole: ProductLosses) -> Forms | None:
    """Return forms of two groups of tables, where one of them joins codes that others tell apart.

    Groups over fewer attributes alone bring nothing: sets of attributes are in one form already.
    """
    groups = two_groups(union)
    if groups is None:
        return None
    forms = ProductLosses(union, groups[0]), ProductLosses(union, groups[1])
    joins = any(
        1 < form.classes[own].count < whole.classes[all_own].count
        for form in forms
        for own, all_own in zip(form.owner, whole.owner, strict=True)
    )
    return forms if joins and shared_cells(*forms) <= MOST_SHARED else None


def without_faint_sets(forms: Forms, start: Start, level: float) -> Start:
    """Return a start without the sets whose rows are not worth their noise."""
    kept, parts, at = [], [], 0
    for form, sets in zip(forms, start.sets, strict=True):
        roots = form.split(start.x[at : at + form.size])[0]
        heavy = roots**2 > FAINT * (roots**2).max()
        kept.append(sets[heavy])
        parts += [roots[heavy], start.x[at + len(roots) : at + form.size]]
        at += form.size
    less = Start(tuple(kept), np.concatenate(parts))
    if descend(forms, less, 0)[0] < level + WORTH:
        return less
    descend(forms, start, 0)  # the forms measure all sets again
    return start


def as_tables(form: ProductLosses, x: Array) -> ProductMarginals:
    """Return the rows over the codes of all attributes."""
    union, point = form.union, form.at(x)
    known = [Dense(s.matrix()[:, c.labels]) for s, c in zip(point.sides, form.classes, strict=True)]
    factors = [Dense(np.ones((1, size), dtype=np.int64)) for size in union.domain_sizes]
    for i, own in zip(union.attributes, form.owner, strict=True):
        factors[i] = known[own]
    members = [[union.attributes[i] for i in np.flatnonzero(one)] for one in form.sets]
    return ProductMarginals(factors, members, (point.roots**2).tolist())


def evaluation_seconds(forms: Forms) -> float:
    """Return the seconds of one loss and slope: inverses, products with Grams, and the tables."""
    seconds = 0.0
    for form in forms:
        squares = sum(
            float(one.count) ** 2 * (6 * one.rows + 5 * len(one.grams) + 12) for one in form.classes
        )
        seconds += 2e-4 + 1.5e-4 * len(form.classes) + 4.5e-10 * squares + 1e-7 * form.sums.nnz
    return seconds + (2e-6 * shared_cells(*forms) ** 2 if len(forms) == 2 else 0.0)


def applies(problem: Problem) -> bool:
    """Tell whether the workload is a union of products that are not all plain tables."""
    union = problem_union(problem)
    return union is not None and frames_fit(union)


def is_best(problem: Problem) -> bool:
    """Tell whether products, and parts of the budget for each, end above for a problem."""
    union = problem_union(problem) if problem.norm == "l1" and problem.is_total else None
    return union is not None and max(union.sizes) <= LONGEST


def has_all_sets(problem: Problem) -> bool:
    """Tell whether every set of attributes is tried, so that plain tables are a case of these."""
    union = problem_union(problem)
    return is_best(problem) and union is not None and union.count <= ALL_SETS


def product_marginals() -> Family:
    """Return the family of product marginals, for unions of Kronecker products.

    Tables over sets of attributes with a p-Identity along each attribute, answered by least
    squares over all of them: the best known strategies for Laplace noise where unions have ordered
    attributes.

    >>> product_marginals().name
    'product_marginals'
    """
    return Family(
        "product_marginals",
        "domain",
        frozenset({"l1"}),
        applies,
        product_marginals_search,
        share=4.0,
    )


FAMILY = product_marginals()
