"""Tables of blocks: their plan, decided without data, and the tables of a release."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import checked_n_records, name_few, short_repr, whole_number
from mrf_matrix.base.provenance import FOREST, ChosenTuple, provenance_of
from mrf_matrix.compilation.matrices import distinct_queries, public_queries
from mrf_matrix.domain import Domain, as_domain
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests import BlockTrees
from mrf_matrix.forests.ensembles import Block, Ensemble, attribute_positions, naive_bayes_forest
from mrf_matrix.mechanisms import ZCDP, PureDP, Release, calibrate
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.mechanisms.measurement.mechanism import squared_factor
from mrf_matrix.planning.plans.block_design import (
    BlockChoice,
    BlockDesign,
    block_arrays,
    choose_blocks,
    judge_blocks,
    row_weights,
)
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import PlanKind, kind_of
from mrf_matrix.posterior import BlockTable
from mrf_matrix.release.curator import StrategyStep
from strategies.operators import Marginals, MemoryCapError, Operator, check_allocation

TABLES = kind_of("tables")

EQUAL = (1, 1)
"""Weights of tables and class totals that have equal shares of the budget: naive Bayes."""


@dataclass(frozen=True, eq=False)
class BlockPart(PlanPart):
    """The only part of a plan of tables: leaves are measured themselves, and class totals."""

    blocks: tuple[Block, ...]  # positions of every block's attributes, in the order of the trees
    weights: tuple[int, int]  # of a block's leaves and of the class totals in what is measured
    design: BlockDesign | None = None  # why these blocks; None where nothing was chosen or judged
    choice: BlockChoice | None = None  # in a user's words
    fits_effects: bool = True  # else naive Bayes, whose tables vote as they are

    def answers(self, release: Release) -> Array:
        """Return the leaf values, shape (o, k), the class totals last."""
        return release.answers / self.row_factors[:, None]

    def step(self, words: str) -> StrategyStep:
        if not self.fits_effects:
            return super().step(words)
        used = sum(map(len, self.blocks))
        tables = f"tables of {len(self.blocks)} blocks" if len(self.blocks) > 1 else "a table"
        what = f"{tables} of {used} attributes, and class totals"
        return StrategyStep(what, self.mechanism, self.weights[0])

    @property
    def n_totals(self) -> int:
        return 1

    @property
    def sensitivity(self) -> float:
        """Of the tables, whose leaves have weight one: in units of records."""
        return super().sensitivity / self.weights[0]

    @property
    def noise_scale(self) -> float:
        """Scale of each draw of a block's leaf, in units of records."""
        return super().noise_scale / self.weights[0]

    @property
    def row_factors(self) -> Array:
        """Divisors that turn noise draws into records, shape (o,)."""
        weights = np.full(self.workload.shape[0], float(self.weights[0]))
        weights[-1] = self.weights[1]  # of the class totals
        return weights * float(self.mechanism.rounded.scale)

    def _row_squares(self) -> Array:
        return np.asarray(1 / self.row_factors**2)

    @property
    def total_square(self) -> float:
        return float(self.row_variances.sum())

    def terms(
        self, rows: NDArray[np.intp], workload: Operator | None = None
    ) -> list[NoiseTerm] | None:
        """Return the weighted noise draw of each leaf; None for other answers."""
        if workload is not None:
            return None
        law = self.mechanism.law
        return [NoiseTerm.of(np.array([1 / factor]), law) for factor in self.row_factors[rows]]

    def lighter(self, largest_scale: int) -> "BlockPart":
        """Return the part with weights so small that discrete Laplace noise has this scale."""
        made = self.mechanism
        if isinstance(made.budget, ZCDP) or made.law.scale <= largest_scale:
            return self
        share = largest_scale / made.law.scale
        leaf = max(1, int(self.weights[0] * share))
        weights = leaf, max(1, leaf * self.weights[1] // self.weights[0])
        domain = self.forest.domain
        mechanism = calibrate(
            block_tables(domain, self.blocks, weights), made.budget, neighboring=made.neighboring
        )
        return replace(self, weights=weights, mechanism=mechanism)

    @property
    def fitted_blocks(self) -> list[list[int]]:
        """Codes of the attributes of each block, whose posterior is fitted."""
        if not self.fits_effects:
            return []
        return [[self.forest.domain.sizes[i] for i in block] for block in self.blocks]


def plan_blocks(
    kind: PlanKind,
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    choice: BlockChoice,
    *,
    neighboring: str,
    n_records: int | None,
    n_classes: int | None = None,
    queries: ArrayLike | None = None,
    delta: float = 0.0,
) -> Plan:
    """Return the plan of tables of blocks, or of naive Bayes, without data.

    `structure`: shuffles attributes; `n_records`: where it is public; `queries`: see `plan`;
    `delta`: the δ that the claim is stated for.
    """
    started = perf_counter()
    if not kind.chooses_blocks:
        part = single_attributes(domain, budget, neighboring)
    else:
        classes = domain.n_classes if n_classes is None else n_classes
        part = block_part(
            domain, budget, structure, choice, n_classes=classes, n_records=n_records,
            neighboring=neighboring,
        )  # fmt: skip
    made = plan_of_part(kind, domain, part, n_records, queries, n_classes=n_classes, delta=delta)
    return replace(made, select_seconds=perf_counter() - started)


def tables_plan(
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    *,
    n_records: int | None,
    neighboring: str,
    blocks: Any = None,
    n_blocks: int | str = "auto",
    delta: float = 0.0,
) -> Plan:
    """Return the plan of a posterior forest; `blocks`, `n_blocks`: as a user gives them."""
    return plan_blocks(
        TABLES, domain, budget, structure, BlockChoice(n_blocks, blocks),
        neighboring=neighboring, n_records=n_records, delta=delta,
    )  # fmt: skip


def plan_of_part(
    kind: PlanKind,
    domain: Domain,
    part: PlanPart,
    n_records: int | None = None,
    queries: ArrayLike | None = None,
    *,
    n_classes: int | None = None,
    delta: float = 0.0,
) -> Plan:
    """Return the plan of one measurement that is decided already; parameters as `plan_blocks`."""
    codes, often, _ = distinct_queries([part.ensemble], public_queries(domain, queries))
    classes = domain.n_classes if n_classes is None else n_classes
    return Plan(domain, kind, (part,), codes, often, classes, n_records, 0.0, delta=delta)


def block_part(
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    choice: BlockChoice,
    *,
    n_classes: int,
    n_records: int | None,
    neighboring: str,
) -> BlockPart:
    """Choose the blocks and calibrate the noise, without data.

    `structure`: shuffles attributes: public; `n_records`: None where it is not public.
    """
    known = checked_n_records(n_records)
    design = design_of(choice, domain, budget, structure, n_classes, known, neighboring)
    weights = row_weights(budget, len(design.blocks))
    given = FOREST if choice.blocks is None else provenance_of(choice.blocks, "blocks")
    blocks = ChosenTuple(design.blocks, given)
    part = weighted_blocks(
        domain, budget, blocks, weights, n_classes=n_classes, neighboring=neighboring
    )
    return replace(part, design=design, choice=choice)


def design_of(
    choice: BlockChoice,
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    n_classes: int,
    n_records: int | None,
    neighboring: str,
) -> BlockDesign:
    """Return the blocks of a choice, and what they are worth; parameters as `block_part`."""
    factor = squared_factor(neighboring, budget.norm, nonnegative=True)  # of 0/1 paths
    if choice.blocks is None:
        for i in (i for i, size in enumerate(domain.sizes) if size > 1):
            check_block(domain, (i,), n_classes)  # whichever are chosen by the budget
        return choose_blocks(
            domain.sizes,
            n_classes,
            budget,
            n_records,
            structure,
            squared_factor=factor,
            n_blocks=None if choice.is_usual else whole_number("n_blocks", choice.n_blocks),
        )
    given = _parse_blocks(domain, choice.blocks, choice.n_blocks)
    return judge_blocks(given, domain.sizes, n_classes, budget, n_records, squared_factor=factor)


def blocks_of_kept(
    domain: Domain,
    budget: PureDP | ZCDP,
    kept: tuple[int, ...],
    structure: np.random.Generator,
    *,
    planned_records: int | None,
    n_records: int | None,
    neighboring: str,
) -> list[Block]:
    """Return the blocks of attributes that choices kept: by public numbers and the choices.

    Attributes stand alone, as was checked before, where a design for few records does not fit.

    `planned_records`: of even classes, that tell as much as the public number `n_records`.
    """
    design = choose_blocks(
        [domain.sizes[i] for i in kept],
        domain.n_classes,
        budget,
        planned_records,
        structure,
        squared_factor=squared_factor(neighboring, budget.norm, nonnegative=True),
    )
    blocks: list[Block] = [tuple(kept[i] for i in block) for block in design.blocks]
    try:
        for block in blocks:
            check_block(domain, block, domain.n_classes)
        check_cost(
            tables_plan(
                domain, budget, np.random.default_rng(0), n_records=n_records,
                neighboring=neighboring, blocks=blocks,
            )
        )  # fmt: skip
    except MemoryCapError:
        return single_blocks(domain, kept)
    return blocks


def single_blocks(domain: Domain, attributes: Iterable[int]) -> list[Block]:
    """Return a block for each attribute of more than one code."""
    return [(i,) for i in attributes if domain.sizes[i] > 1]


def single_attributes(domain: Domain, budget: PureDP | ZCDP, neighboring: str) -> BlockPart:
    """Return a block for each attribute with two codes, all weights equal: naive Bayes."""
    blocks = tuple(single_blocks(domain, range(domain.n_attributes)))
    workload = block_tables(domain, blocks, EQUAL)
    mechanism = calibrate(workload, budget, neighboring=neighboring)
    whole = Ensemble(tuple(range(domain.n_attributes)), naive_bayes_forest(domain))
    return BlockPart(whole, workload, None, mechanism, blocks, EQUAL, fits_effects=False)


def block_tables(domain: Domain, blocks: Sequence[Block], weights: tuple[int, int]) -> Marginals:
    """Return the weighted tables of blocks and of the class totals: the leaves of `BlockTrees`."""
    leaf, total = weights
    return Marginals(domain.sizes, [*blocks, ()], [leaf] * len(blocks) + [total])


def _parse_blocks(domain: Domain, blocks: object, n_blocks: object) -> tuple[Block, ...]:
    if n_blocks != "auto":
        raise ValueError(
            f"n_blocks={short_repr(n_blocks)} and blocks are both given: expected one of them. "
            f"Leave n_blocks out."
        )
    if isinstance(blocks, str) or not isinstance(blocks, Sequence | np.ndarray) or not len(blocks):
        raise ValueError(
            f"blocks={short_repr(blocks)}: expected one list of attributes for each block, for "
            f"example [[0, 1], ['age', 'sex']]."
        )
    trees = BlockTrees([attribute_positions("blocks", domain, block) for block in blocks])
    return tuple(tuple(block) for block in trees.blocks)


def weighted_blocks(
    domain: Domain,
    budget: PureDP | ZCDP,
    blocks: tuple[Block, ...],
    weights: tuple[int, int],
    *,
    n_classes: int,
    neighboring: str,
) -> BlockPart:
    """Weigh the leaves of given blocks and calibrate the noise.

    `weights`: of a block's leaves and of the class totals.

    Raises ValueError if the blocks are none of the domain; MemoryCapError if the covariance of a
    block's effects or the components of its residual, which prediction needs, would not fit.
    """
    for block in blocks:
        check_block(domain, block, n_classes)
    forest = BlockTrees(blocks).grow(domain)
    mechanism = calibrate(block_tables(domain, blocks, weights), budget, neighboring=neighboring)
    whole = Ensemble(tuple(range(domain.n_attributes)), forest)
    tables = block_tables(domain, blocks, EQUAL)
    return BlockPart(whole, tables, None, mechanism, blocks, weights)


def check_block(domain: Domain, block: Block, n_classes: int) -> None:
    """Refuse a block whose posterior would not fit in memory, by public sizes alone.

    Raises MemoryCapError: it names the attributes.
    """
    names = name_few([domain.names[i] for i in block])
    for what, shape in block_arrays(domain.sizes, block, n_classes).items():
        check_allocation(f"{what} of {names}", shape)


def only_blocks(parts: Sequence[PlanPart]) -> BlockPart:
    """Return the part of a plan of tables.

    Raises TypeError if the plan measures anything else.
    """
    (part,) = parts
    if not isinstance(part, BlockPart):
        raise TypeError("the plan measures no tables of blocks: expected kind='tables'.")
    return part


def tables_of(
    part: BlockPart, release: Release, columns: NDArray[np.intp] | slice = slice(None)
) -> tuple[list[BlockTable], BlockTable]:
    """Return the blocks' noisy tables and that of the class totals; `columns`: of the release."""
    leaf, total = (weight * float(release.scale) for weight in part.weights)
    answers = release.answers[:, columns].astype(np.float64)
    sizes = part.forest.domain.sizes
    tables, start = [], 0
    for block in part.blocks:
        fans = tuple(sizes[i] for i in block)
        stop = start + int(np.prod(fans))
        values = answers[start:stop] / leaf
        tables.append(BlockTable(block, fans, values, release.variance / leaf**2))
        start = stop
    return tables, BlockTable((), (), answers[-1:] / total, release.variance / total**2)


def blocks_budget(
    claim: tuple[object, object, object],
    domain: object,
    choice: BlockChoice | None,
    n_records: int | None,
    neighboring: str,
) -> PureDP | ZCDP:
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

    def worth(budget: PureDP | ZCDP) -> float:
        if choice is None:
            return -single_attributes(domain, budget, neighboring).total_square
        structure, k = np.random.default_rng(0), domain.n_classes
        return design_of(choice, domain, budget, structure, k, n_records, neighboring).value

    return max((first, others[0]), key=worth)
