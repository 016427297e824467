"""Which noise serves a claim of (ε, δ) best where tables are measured once: Laplace or Gaussian."""

import numpy as np

from mrf_matrix.domain import Domain, as_domain
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.claim import claiming_budgets
from mrf_matrix.planning.blocks.block_design import BlockChoice
from mrf_matrix.planning.blocks.block_part import design_of, single_attributes

Budget = PureDP | ZCDP


def blocks_budget(
    claim: tuple[object, object, object],
    domain: object,
    choice: BlockChoice | None,
    n_records: int | None,
    neighboring: str,
) -> Budget:
    """Return the budget of the noise law that serves a claim of ε, (ε, δ) or ρ best.

    Laplace noise is ahead where few tables are measured: its variance grows with the square of
    their number, that of Gaussian noise with the number.

    `claim`: ε, δ and ρ; `domain`: Domain or path, with classes; of anything else nothing is known
    yet, and Gaussian noise is taken under δ; `choice`: the blocks of a posterior forest, judged by
    their expected labels; None for naive Bayes, judged by its noise; `n_records`: where public.
    """
    first, *others = claiming_budgets(*claim)
    domain = as_domain(domain) if others else domain
    if not others or not isinstance(domain, Domain) or domain.target is None:
        return others[0] if others else first

    def worth(budget: Budget) -> float:
        if choice is None:
            return -single_attributes(domain, budget, neighboring).total_square
        structure, k = np.random.default_rng(0), domain.n_classes
        return design_of(choice, domain, budget, structure, k, n_records, neighboring).value

    return max((first, others[0]), key=worth)
