"""Product marginals for unions of Kronecker products and Laplace noise, found by descents.

The loss has many local minima, and the sets of attributes that are measured decide most. At fixed
sides a table measured within S alone has the error ``w_T² Π_T (tr(G Y) + zᵀGz/τ) Π_{S∖T} 1/τ``, and
parts of losses ``L_S`` of one budget cost ``(Σ L_S^⅓)³``: tables are joined greedily while that
falls. Short descents from two kinds of rows and from such designs; the best goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from strategies.bounds.pinched_union import frames_fit
from strategies.methods.descents import minimise
from strategies.methods.family import UNIONS, Family, Search, factory, require
from strategies.methods.marginals.algebra import are_among
from strategies.methods.marginals.joint_losses import JointLosses, shared_cells
from strategies.methods.marginals.product_losses import (
    ROWS,
    Point,
    ProductLosses,
    joined_labels,
)
from strategies.operators import Array, Dense, JointMarginals, Operator, ProductMarginals, fits
from strategies.operators.base.arrays import Bools, Longs
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion, problem_union

ALL_SETS = 6  # attributes up to which every set of them may be measured
JITTERS = 0.0, 0.08, 0.16, 0.24  # spread of the noise, in logarithms, of several greedy designs
MOST_MERGED = 400  # tables up to which pairs of them are joined
TRIES = 8  # designs at every spread but none
LEAST_ROOT = 0.05  # of a set that a design does not name, beside its largest
FAINT_ROOT = 0.15  # of a set that is no table, at first
MOST_TABLES = 64  # that are dealt into groups
MOST_SHARED = 300  # cells of the classes that two groups share


Forms = tuple[ProductLosses, ...]
"""One for all tables, or one for each of two groups."""


@dataclass(frozen=True, eq=False)
class Start:
    """Sets of every form, and all roots, form by form: the sets', then the sides' rows."""

    sets: tuple[Bools, ...]
    x: Array


def basic_sets(form: ProductLosses) -> Bools:
    """Return the tables' sets and the total; all sets where attributes are few."""
    d = form.count
    if d <= ALL_SETS:
        every = np.arange(2**d)[:, None] >> np.arange(d) & 1
        return measurable(form, every.astype(bool))
    own = np.concatenate([np.zeros((1, d), dtype=bool), form.kind > 0])
    return measurable(form, np.unique(own, axis=0))


def measurable(form: ProductLosses, sets: Bools) -> Bools:
    """Return those sets whose tables fit in memory, and all that are tables of the workload."""
    rows = np.array([form.classes[o].rows + form.classes[o].count for o in form.owner], float)
    counts = np.where(sets, rows, 1.0).prod(axis=1)
    fit = np.array([fits((int(min(count, 2.0**62)),), 16) for count in counts])
    return np.asarray(sets[fit | are_among(sets, form.kind > 0)])


def random_start(forms: Forms, style: str, rng: np.random.Generator) -> Start:
    """Return roots to begin with, the tables' own sets first; rows random, or of neighbours."""
    sets, parts = tuple(map(basic_sets, forms)), []
    for form, own in zip(forms, sets, strict=True):
        parts.append(np.where(are_among(own, form.kind > 0), 1.0, FAINT_ROOT))
        for one in form.classes:
            p, n = one.rows, one.count
            if one.is_plain:
                rows = 0.5 * rng.standard_normal((p, n))
            elif style == "blocks":
                of_block = np.arange(n) * p // n == np.arange(p)[:, None]
                rows = 0.15 * rng.random((p, n)) + 0.9 * of_block
            else:
                rows = np.sqrt(rng.random((p, n)))
            parts.append(rows.ravel())
    return Start(sets, np.concatenate(parts))


def descend(forms: Forms, start: Start, steps: int) -> tuple[float, Start]:
    """Return the logarithm of the loss where a descent of some evaluations ends, and the roots."""
    for form, sets in zip(forms, start.sets, strict=True):
        form.measure(sets)
    value = forms[0] if len(forms) == 1 else JointLosses(*forms)
    x, level = minimise(value, start.x, steps)
    return level, Start(start.sets, x)


def improved_by_designs(
    form: ProductLosses, start: Start, level: float, steps: int, rng: np.random.Generator
) -> tuple[float, Start]:
    """Return what descents from greedy designs of sets end with, where it is better.

    Plain sides begin near the identity: where τ is 0 no two tables are worth joining.
    """
    basic, form_sets = basic_sets(form), start.sets[0]
    form.measure(form_sets)
    parts = zip(form.classes, form.split(start.x)[1], strict=True)
    sides = np.concatenate(
        [(0.3 * rng.standard_normal(p.shape) if one.is_plain else p).ravel() for one, p in parts]
    )
    ends = []
    point = form.at(np.r_[start.x[: len(form_sets)], sides])
    for sets, roots in greedy_designs(form, point, rng):
        every = np.unique(np.concatenate([basic, measurable(form, sets)]), axis=0)
        place = {one.tobytes(): root for one, root in zip(sets, roots / roots.max(), strict=True)}
        first = [max(LEAST_ROOT, place.get(one.tobytes(), 0.0)) for one in every]
        ends.append(descend((form,), Start((every,), np.r_[first, sides]), steps // 6))
    if ends:
        found = descend((form,), min(ends, key=lambda end: end[0])[1], steps)
        level, start = min((level, start), found, key=lambda end: end[0])
    return level, start


def greedy_designs(
    form: ProductLosses, point: Point, rng: np.random.Generator
) -> list[tuple[Bools, Array]]:
    """Return distinct greedy designs: sets, and the roots of their weights."""
    own = form.kind > 0
    taus = np.array([point.sides[o].tau for o in form.owner])
    first = np.array(form.owner)
    code = form.first[first] + form.kind
    alone = (point.residuals + point.totals)[code]  # τ (tr(G Y) + zᵀGz/τ)
    base = form.squares * np.where(own, alone, 1.0).prod(axis=1)
    sets, number = np.unique(own, axis=0, return_inverse=True)
    base = np.asarray(np.bincount(number.ravel(), base), np.float64)  # loss of S: base / Π_S τ
    if len(sets) > MOST_MERGED:
        return []
    found = {}
    for jitter in np.repeat(JITTERS, [1, *[TRIES] * (len(JITTERS) - 1)]):
        design = join_greedily(sets, base, -np.log(taus), float(jitter), rng)
        found[design[0].tobytes()] = design
    return list(found.values())


def join_greedily(
    sets: Bools, base: Array, logs: Array, jitter: float, rng: np.random.Generator
) -> tuple[Bools, Array]:
    """Join two sets at a time while ``Σ L^⅓`` falls, with noise on the gains."""
    sets, base = sets.copy(), base.copy()
    noise = np.exp(jitter * rng.standard_normal((len(sets),) * 2))
    noise = np.sqrt(noise * noise.T)
    held = np.ones(len(sets), dtype=bool)

    def gains(rows: slice | int) -> Array:
        """Return what is gained by joining some sets with each."""
        weights = sets @ logs
        mine = sets[rows] @ logs
        union = np.add.outer(mine, weights) - (sets[rows] * logs) @ sets.T
        apart = np.add.outer(np.cbrt(base[rows] * np.exp(mine)), np.cbrt(base * np.exp(weights)))
        both = np.add.outer(base[rows], base)
        return np.asarray(apart - noise[rows] * np.cbrt(both * np.exp(union)))

    table = gains(slice(None))
    np.fill_diagonal(table, -np.inf)
    while held.sum() > 1:
        a, b = divmod(int(table.argmax()), len(sets))
        if table[a, b] <= 0:
            break
        sets[a] |= sets[b]
        base[a] += base[b]
        held[b] = False
        table[b], table[:, b] = -np.inf, -np.inf
        mine = np.where(held, gains(a), -np.inf)
        mine[a] = -np.inf
        table[a], table[:, a] = mine, mine
    kept, total = sets[held], base[held] * np.exp(sets[held] @ logs)
    order = np.lexsort(kept.T)
    return kept[order], total[order] ** (1 / 6)


def two_groups(union: TableUnion) -> tuple[Longs, Longs] | None:
    """Return tables dealt into two groups that tell fewer codes apart, None where none do.

    Groups are joined two at a time, where ``Σ L^⅓`` of the Identity's losses over what each tells
    apart rises least.
    """
    if not 2 <= len(union.tables) <= MOST_TABLES:
        return None
    groups: list[tuple[int, ...]] = [(t,) for t in range(len(union.tables))]
    prices = [class_cells_loss(union, one) for one in groups]
    known: dict[tuple[int, ...], float] = {}
    while len(groups) > 2:
        best, chosen = np.inf, (0, 1)
        for a, b in combinations(range(len(groups)), 2):
            both = groups[a] + groups[b]
            if both not in known:
                known[both] = class_cells_loss(union, both)
            rise = np.cbrt(known[both]) - np.cbrt(prices[a]) - np.cbrt(prices[b])
            if rise < best:
                best, chosen = rise, (a, b)
        both = groups[chosen[0]] + groups[chosen[1]]
        kept = [k for k in range(len(groups)) if k not in chosen]
        groups = [*(groups[k] for k in kept), both]
        prices = [*(prices[k] for k in kept), known[both]]
    return np.array(groups[0]), np.array(groups[1])


def class_cells_loss(union: TableUnion, tables: Sequence[int]) -> float:
    """Return the Identity's loss over the classes of codes that some tables tell apart."""
    own = list(tables)
    errors = union.weights[own] ** 2
    for i, kinds in enumerate(union.kinds):
        used = np.where(union.table_members[own, i], union.kind[own, i], -1)
        parts = [kinds[k].classes for k in np.unique(used[used >= 0])]
        labels = joined_labels(parts, union.sizes[i])
        first = np.unique(labels, return_index=True)[1]
        traces = np.array([*(np.diag(kind.gram)[first].sum() for kind in kinds), len(first)])
        errors = errors * traces[used]
    return float(errors.sum())


BRIEFS = 14  # brief descents that all stages together take
FEWEST, MOST = 25, 120  # evaluations of a brief descent
LONG = 4  # brief descents that the last one takes
FAINT = 1e-4  # share of the largest weight below which a set is left out
WORTH = 1e-5  # relative loss that leaving sets out may cost
LONGEST = 300  # codes of an attribute up to which a descent has evaluations enough
FEW_TABLES = 8  # up to which a product for each may gain by having few rows
STYLES = "random", "blocks"


def product_marginals_search(problem: Problem, search: Search) -> Operator:
    union = require(problem_union(problem), UNIONS)
    whole = ProductLosses(union, np.arange(len(union.tables)))
    begun = [start_descents((whole,), search)]
    groups = grouped_forms(union, whole)
    if groups:
        begun.append(start_descents(groups, search))
    level, start, forms = min(begun, key=lambda one: one[0])
    steps = brief_steps(forms, search)
    if len(forms) == 1:
        level, start = improved_by_designs(forms[0], start, level, steps, search.generator)
    level, start = descend(forms, start, LONG * steps)
    start = without_faint_sets(forms, start, level)
    halves = np.split(start.x, np.cumsum([form.size for form in forms])[:-1])
    blocks = [as_tables(form, half) for form, half in zip(forms, halves, strict=True)]
    return blocks[0] if len(blocks) == 1 else JointMarginals(blocks)


def start_descents(forms: Forms, search: Search) -> tuple[float, Start, Forms]:
    """Return where brief descents from two kinds of rows end, the better one."""
    steps = brief_steps(forms, search)
    starts = [random_start(forms, style, search.generator) for style in STYLES]
    level, start = min((descend(forms, s, steps) for s in starts), key=lambda end: end[0])
    return level, start, forms


def brief_steps(forms: Forms, search: Search) -> int:
    return min(MOST, max(FEWEST, int(search.work / BRIEFS / evaluation_seconds(forms))))


def grouped_forms(union: TableUnion, whole: ProductLosses) -> Forms | None:
    """Return forms of two groups of tables, where one of them joins codes that others tell apart.

    Groups over fewer attributes alone bring nothing: sets of attributes are in one form already.
    None are looked for where every table tells the same codes apart.
    """
    owned = zip(union.kinds, whole.owner, strict=True)
    alike = all(k.classes.max() + 1 == whole.classes[o].count for kinds, o in owned for k in kinds)
    groups = None if alike else two_groups(union)
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


def least_seconds(problem: Problem) -> float:
    """Return the seconds of the shortest search where an attribute is long, else nothing.

    A count of operations that needs no spectrum: of short attributes they cost next to nothing.
    """
    union = problem_union(problem)
    if union is None or max(union.sizes) <= LONGEST:
        return 0.0
    ends = sorted(set(union.twin))
    squares = sum(
        union.sizes[i] ** 2 * (6 * ROWS * union.sizes[i] ** 0.5 + 5 * len(union.kinds[i]) + 17)
        for i in ends
    )
    return float(BRIEFS * FEWEST * (2e-4 + 1.5e-4 * len(ends) + 4.5e-10 * squares))


def applies(problem: Problem) -> bool:
    union = problem_union(problem)
    return union is not None and frames_fit(union)


def quick_union(problem: Problem) -> TableUnion | None:
    """Return a union under Laplace noise, None where attributes are too long for the descents."""
    union = problem_union(problem) if problem.norm == "l1" and problem.is_total else None
    return union if union is not None and max(union.sizes) <= LONGEST else None


def is_best(problem: Problem) -> bool:
    """Tell whether products, and parts of the budget for each, end above for a problem.

    They may not for few tables of which some have fewer independent rows than classes of codes.
    """
    union = quick_union(problem)
    if union is None or len(union.tables) > FEW_TABLES:
        return union is not None
    kinds = [kind for kinds in union.kinds for kind in kinds]
    ranks = [int(np.linalg.matrix_rank(kind.gram, hermitian=True)) for kind in kinds]
    return all(r == kind.classes.max() + 1 for r, kind in zip(ranks, kinds, strict=True))


def has_all_sets(problem: Problem) -> bool:
    """Tell whether every set of attributes is tried, so that plain tables are a case of these."""
    union = quick_union(problem)
    return union is not None and union.count <= ALL_SETS


@factory
def product_marginals() -> Family:
    """Measure tables with a p-Identity along each attribute: unions of products, Laplace noise.

    Answers are by least squares over all tables: the best known strategies where unions have
    ordered attributes.
    """
    return Family(
        "product_marginals",
        "domain",
        frozenset({"l1"}),
        applies,
        product_marginals_search,
        share=4.0,
        least=least_seconds,
        good=least_seconds,
    )
