"""What can be known of stage 2 before stage 1 is paid: that a strategy serves every structure."""

from collections.abc import Sequence
from itertools import combinations
from math import comb

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.parameters import GivenStrategy
from mrf_matrix.mechanisms import ZCDP, PureDP, calibrate
from mrf_matrix.planning.plans.measuring import check_strategy_names
from mrf_matrix.planning.plans.strategy_choice import given_matrix
from strategies import Strategy
from strategies.operators import Marginals, RowSpaceError, fits

MOST_SETS = 1 << 12  # sets of attributes up to which all of them are asked for


def check_given_strategy(
    strategy: GivenStrategy | Sequence[GivenStrategy],
    domain: Domain,
    max_depth: int,
    budget: PureDP | ZCDP,
    neighboring: str,
) -> None:
    """Refuse a given strategy that could not measure the leaves that stage 1 may grow.

    A path of depth h splits on up to h attributes, at any cuts, and products of cuts span the
    table of those attributes. So a strategy determines the leaves of every structure exactly
    where it determines all tables of ``min(max_depth, splittable attributes)`` attributes. Where
    there are too many of them to ask, stage 2 finds out.

    `budget`: what stage 2 will spend; `neighboring` {"add_remove", "replace_one"}.

    Raises TypeError, ValueError if it is a name of no family, no matrix over the domain's cells,
    selected for the other norm, or (a `RowSpaceError`) does not determine those tables.
    """
    check_strategy_names(strategy)
    (one,) = _single(strategy)
    if isinstance(one, str):
        return
    if isinstance(one, Strategy) and one.norm != budget.norm:
        noise = "Laplace" if budget.norm == "l1" else "Gaussian"
        raise ValueError(
            f"strategy was selected for norm={one.norm!r}, but stage 2 adds {noise} noise: select "
            f"it again with norm={budget.norm!r}."
        )
    matrix = given_matrix(one.matrix if isinstance(one, Strategy) else one, domain.size)
    tables = tables_of_every_structure(domain.sizes, max_depth)
    if tables is None:
        return
    try:
        calibrate(matrix, budget, neighboring=neighboring, workload=tables)
    except RowSpaceError:
        raise RowSpaceError(
            f"strategy does not determine the leaves of every structure that stage 1 may grow: "
            f"with max_depth={max_depth}, expected a matrix that determines all tables of "
            f"{len(tables.attribute_sets[0])} attributes. Give strategy='auto' or a family's name, "
            f"which is selected for the structure, or lower max_depth. Nothing was spent."
        ) from None


def tables_of_every_structure(sizes: tuple[int, ...], max_depth: int) -> Marginals | None:
    """Return the tables whose row space is that of all leaves of trees of a depth.

    None where there are too many to ask for.
    """
    splittable = [i for i, size in enumerate(sizes) if size > 1]
    h = min(max_depth, len(splittable))
    if comb(len(splittable), h) > MOST_SETS:
        return None
    sets = list(combinations(splittable, h))
    tables = Marginals(sizes, sets, [1] * len(sets))
    return tables if fits(tables.shape[:1], 64) else None


def _single(strategy: object) -> Sequence[object]:
    given = strategy if isinstance(strategy, list | tuple) else [strategy]
    if len(given) != 1:
        raise ValueError(f"strategy holds {len(given)}: expected one, for there is one forest.")
    return given
