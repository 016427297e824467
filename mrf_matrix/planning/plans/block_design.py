r"""Which attributes to measure, and in which blocks: chosen without data.

Under the prior of `mrf_matrix.posterior`, a component U of a block (one attribute, a pair or a
triple of them) has effects of variance :math:`\tau_U` on the log odds. A design measures them with
relative noise variance

.. math::

    r_U = \frac{\sigma_B^2 n_B / n_U + m_U}{m_U^2}, \qquad m_U = \frac{N}{k\, n_U},

and the posterior shrinks them by :math:`\kappa_U = \bar\tau_U / (\bar\tau_U + r_U)`, for it knows
their usual variance :math:`\bar\tau_U` better than their own. The shrunk effects explain

.. math::

    V = \frac{(\sum_U \phi_U \kappa_U \tau_U)^2}{\sum_U \phi_U \kappa_U^2 (\tau_U + r_U)},
    \qquad \phi_U = \prod_{i \in U} (1 - 1/n_i),

of the variance of the log odds, and normal log odds of that variance label
:math:`\Phi(\sqrt{V/2})` of the records right (Bayesian experimental design). Few coarse blocks
carry little noise each, many attributes carry more signal: the largest mean value over attributes
of random relevance wins. Pure DP pays :math:`\sigma_B \propto t` for t blocks, zCDP
:math:`\sqrt t`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import prod, sqrt

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.ensembles import Block, balanced_blocks
from mrf_matrix.mechanisms import ZCDP, PureDP
from strategies.operators import fits

TOTALS_SHARE = 0.01  # of the budget (its square under zCDP), for class totals; tables tell them too

UNKNOWN_RECORDS = (300, 1000, 3000, 10000)
"""Numbers of records that a design is judged by where theirs is not public."""

EFFECTS = (0.3, 0.1, 0.03)
"""Usual variance of the effects of one attribute, of a pair and of a triple."""

RELEVANCE_SHAPE = 0.8
DRAWS = 64
MOST_DRAWN = 2**21
WEIGHT = 1000
"""Integer weight of a block's leaves: the class totals' is rounded to a thousandth of it."""

FEW_CELLS = 2048
MOST_CELLS = 2**15
TELLING_NOISE = 0.5
"""Noise, in records, below which a cell tells a single record from none."""

TELLING_RECORDS = 0.3
"""Expected records of a cell and class, over their noise, from which one large table of all
attributes tells as well."""

COVARIANCES = 12
"""Arrays of the size of a block's covariances that its fit holds at once, as was measured."""

STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 28, 36, 48, 62, 80, 100, 128)


@dataclass(frozen=True)
class BlockChoice:
    """The design of a plan of tables, in a user's words: how its blocks are chosen."""

    n_blocks: object = "auto"  # number of blocks of all attributes; "auto" chooses
    # the attributes of each block by hand, by position or name; then none are chosen
    blocks: object = None

    @property
    def is_usual(self) -> bool:
        return self.blocks is None and isinstance(self.n_blocks, str) and self.n_blocks == "auto"


@dataclass(frozen=True)
class BlockDesign:
    """Blocks to measure, and what they are worth."""

    # positions of the attributes of every block; attributes in none are not measured
    blocks: tuple[Block, ...]
    value: float  # expected share of right labels under the prior: good for comparing designs only
    # of each cell of a block, in records squared, up to the rounding of discrete noise
    noise_variance: float


def block_arrays(sizes: Sequence[int], block: Block, n_classes: int) -> dict[str, tuple[int, ...]]:
    """Return the arrays that the posterior of a block takes, by public sizes alone."""
    terms = sum(sizes[i] for i in block) + 1
    components = prod(sizes[i] + 1 for i in block)
    return {
        "covariances of the effects": (COVARIANCES, n_classes, terms, terms),
        "components": (components, n_classes),
    }


def choose_blocks(
    sizes: Sequence[int],
    n_classes: int,
    budget: PureDP | ZCDP,
    n_records: int | None,
    random_state: np.random.Generator,
    *,
    squared_factor: float = 1.0,
    n_blocks: int | None = None,
) -> BlockDesign:
    """Return the design of the largest value; which attributes go together is random.

    `sizes`: attribute sizes of the public domain; `n_classes`: number of classes k; `n_records`:
    public number of records; None judges designs by each of `UNKNOWN_RECORDS` alike;
    `random_state`: shuffles the attributes: public; `squared_factor`: square of the neighbouring
    relation's factor; `n_blocks`: use all attributes in so many blocks instead of choosing.

    Raises ValueError if no attribute has two codes, there are more blocks than attributes, no
    design stays within `MOST_CELLS` cells a block, or effects do not fit in memory.
    """
    shuffled = [int(i) for i in random_state.permutation(len(sizes)) if sizes[i] > 1]
    if not shuffled:
        raise ValueError("every attribute of the domain has a single code: expected one with two.")
    if n_blocks is not None and n_blocks > len(shuffled):
        raise ValueError(
            f"n_blocks={n_blocks}: expected at most {len(shuffled)}, the attributes with more than "
            f"one code: a block holds at least one."
        )
    best: BlockDesign | None = None
    for used, count in _candidates(len(shuffled), n_blocks):
        blocks = tuple(balanced_blocks(shuffled[:used], sizes, count))
        variance = squared_factor * variances(budget, len(blocks))[0]
        cells = max(prod(sizes[i] for i in block) for block in blocks)
        telling = TELLING_NOISE
        if count == 1 and used == len(shuffled):
            telling = max(telling, (n_records or 0) / (n_classes * cells) / TELLING_RECORDS)
        if cells > (MOST_CELLS if variance < telling**2 else FEW_CELLS) and count < used:
            continue
        arrays = (block_arrays(sizes, one, n_classes) for one in blocks)
        if n_blocks is None and not all(fits(shape) for one in arrays for shape in one.values()):
            continue
        judged = judge_blocks(
            blocks, sizes, n_classes, budget, n_records, squared_factor=squared_factor
        )
        if best is None or judged.value > best.value + 1e-4:
            best = judged
    if best is None and n_blocks is None:
        raise ValueError(
            f"an attribute has {max(sizes)} codes: effects of so many would not fit in memory. "
            f"Expected fewer: group codes, or give fewer edges."
        )
    if best is None:
        raise ValueError(
            f"n_blocks={n_blocks}: blocks would have more than {FEW_CELLS} cells (with little "
            f"noise {MOST_CELLS}). Expected more blocks, or n_blocks='auto'."
        )
    return best


LEAST = Fraction(1, 10**100)
"""Budgets are judged within this and its inverse; their noise refuses what is beyond."""


def judge_blocks(
    blocks: tuple[Block, ...],
    sizes: Sequence[int],
    n_classes: int,
    budget: PureDP | ZCDP,
    n_records: int | None,
    *,
    squared_factor: float = 1.0,
) -> BlockDesign:
    """Return given blocks as a design, with its value and noise; parameters as `choose_blocks`."""
    variance = squared_factor * variances(budget, len(blocks))[0]
    records = UNKNOWN_RECORDS if n_records is None else (max(n_records, 1),)
    relevance = _relevances(len(sizes))
    judged = [_value(blocks, sizes, n / n_classes, variance, relevance) for n in records]
    return BlockDesign(blocks, float(np.mean(judged)), variance)


def variances(budget: PureDP | ZCDP, n_blocks: int) -> tuple[float, float]:
    """Return the noise variances of a cell of t blocks and of a class total (add/remove).

    With s the totals' share: ``2 t² / ((1 - s) ε)²`` and ``2 / (s ε)²`` under pure DP,
    ``t / (2 (1 - s) ρ)`` and ``1 / (2 s ρ)`` under zCDP.
    """
    if budget.is_infinite:
        return 0.0, 0.0
    amount, share = float(min(max(budget.exact, LEAST), 1 / LEAST)), TOTALS_SHARE
    if isinstance(budget, PureDP):
        return 2.0 * (n_blocks / ((1 - share) * amount)) ** 2, 2.0 / (share * amount) ** 2
    return n_blocks / (2 * (1 - share) * amount), 1 / (2 * share * amount)


def row_weights(budget: PureDP | ZCDP, n_blocks: int) -> tuple[int, int]:
    """Return the integer weights of a block's leaves and of the class totals."""
    odds = n_blocks * TOTALS_SHARE / (1 - TOTALS_SHARE)
    return WEIGHT, max(1, round(WEIGHT * (odds if isinstance(budget, PureDP) else sqrt(odds))))


def _candidates(n_attributes: int, n_blocks: int | None) -> Iterator[tuple[int, int]]:
    """Yield numbers of attributes in use, and of blocks."""
    if n_blocks is not None:
        yield n_attributes, n_blocks
        return
    steps = [step for step in STEPS if step < n_attributes] + [n_attributes]
    for used in steps:
        yield from ((used, count) for count in steps if count <= used)


@cache
def _relevances(n_attributes: int) -> Array:
    """Return draws of the attributes' relevance, always the same, shape (draws, d)."""
    generator = np.random.default_rng(0)
    return generator.gamma(RELEVANCE_SHAPE, 1 / RELEVANCE_SHAPE, size=(DRAWS, n_attributes))


def _value(
    blocks: Sequence[Block],
    sizes: Sequence[int],
    per_class: float,
    variance: float,
    relevance: Array,
) -> float:
    """Return the mean expected share of right labels over draws of the attributes' relevance."""
    told, spent = np.zeros(len(relevance)), np.zeros(len(relevance))
    for block, usual, parts in _effects_of(blocks):
        cells = np.asarray(sizes, dtype=np.float64)[block].prod(axis=1, keepdims=True)
        fans = np.asarray(sizes, dtype=np.float64)[parts]
        expected = per_class / fans.prod(axis=2)
        noise = (variance * cells / fans.prod(axis=2) + expected) / expected**2
        spread = usual * relevance[:, parts].prod(axis=3) ** (1 / parts.shape[2])
        shrunk = usual / (usual + noise)
        weight = (1 - 1 / fans).prod(axis=2)
        told += (weight * shrunk * spread).sum(axis=(1, 2))
        spent += (weight * shrunk**2 * (spread + noise)).sum(axis=(1, 2))
    explained = told**2 / np.maximum(spent, 1e-300)
    return float(norm.cdf(np.sqrt(explained / 2)).mean())


def _effects_of(blocks: Sequence[Block]) -> Iterator[tuple[Longs, float, Longs]]:
    """Yield some blocks of one length (m, l), an effect, and the attributes of each (m, c, order).

    So many blocks at a time that a draw of all relevances of their effects holds `MOST_DRAWN`.
    """
    for length in sorted({len(block) for block in blocks}):
        alike = np.array([block for block in blocks if len(block) == length])
        for order, usual in enumerate(EFFECTS[:length], start=1):
            chosen = np.array(list(combinations(range(length), order)))
            step = max(1, MOST_DRAWN // (DRAWS * chosen.size))
            for start in range(0, len(alike), step):
                some = alike[start : start + step]
                yield some, usual, some[:, chosen]
