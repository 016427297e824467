"""What a federation will release, before any data: strategy, shares of noise, laws, error."""

import hashlib
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.federated.shares.noise import (
    LARGEST_SHARED_SCALE,
    coarse_mechanism,
    gaussian_share,
    laplace_layers,
)
from mrf_matrix.mechanisms import (
    ZCDP,
    DiscreteGaussian,
    Mechanism,
    NoiseLaw,
    NoNoise,
    PureDP,
    Quorum,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
    calibrate,
)
from mrf_matrix.release.curator import StrategyStep
from strategies import evaluate
from strategies.operator_files import encode
from strategies.operators import Scaled


@dataclass(frozen=True, eq=False)
class FederatedDesign:
    """A mechanism whose noise several parties share. All of it is public.

    Attributes
    ----------
    mechanism : Mechanism
        Its law is that of a sum to which every party contributes, with no excess taken off.
    quorum : Quorum
    n_classes : int
    layers : tuple of NoiseLaw
        What each party draws, independent, and adds: one law, or with removal of the excess a
        base and a layer for each drop-out that may not happen.
    central : Mechanism
        What one trusted party would measure, whose noise is shared here.
    ratio : float
        Loss of the coarse integers over that of the strategy; 1 where nothing was rounded.
    provenance : Provenance
        What the strategy follows from, where it is a plan's: forest, blocks and domain.
    """

    mechanism: Mechanism
    quorum: Quorum
    n_classes: int
    layers: tuple[NoiseLaw, ...]
    central: Mechanism
    ratio: float = 1.0
    provenance: Provenance = NOTHING

    largest_scale: ClassVar[int] = LARGEST_SHARED_SCALE

    @property
    def budget(self) -> PureDP | ZCDP:
        """What the release costs, whoever contributes."""
        return self.mechanism.budget

    @property
    def neighboring(self) -> str:
        """The neighbouring relation."""
        return self.mechanism.neighboring

    @cached_property
    def steps(self) -> tuple[StrategyStep]:
        """The one step that each party takes, with a share of the noise."""
        return (StrategyStep("a party's answers", self.mechanism),)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the noisy integers, (m, k)."""
        return self.mechanism.rounded.matrix.shape[0], self.n_classes

    @property
    def length(self) -> int:
        """Integers in each party's vector."""
        return self.shape[0] * self.shape[1]

    @property
    def removes_excess(self) -> bool:
        """Whether layers of noise are taken off where fewer vanish than might."""
        return len(self.layers) > 1

    def revealed_layers(self, contributors: int) -> slice:
        """Return which layers are taken off when so many contributed.

        With d drop-outs each survivor keeps a share of ``1 / (k - C - d)`` of discrete Laplace
        noise; the layers that made it up to ``1 / s`` go.
        """
        missing = self.quorum.parties - contributors
        return slice(1 + missing, len(self.layers))

    def takes_off(self, contributors: int) -> bool:
        """Return whether noise is taken off when so many contributed."""
        return bool(self.layers[self.revealed_layers(contributors)])

    def law(self, contributors: int | None = None, revealing: int = 0) -> NoiseLaw:
        """Return the true law of the noise in the opened sum.

        Parameters
        ----------
        contributors : int, optional
            Parties whose vector is in the sum; all by default.
        revealing : int, default=0
            Those of them whose excess was taken off.

        Raises
        ------
        ValueError
            If so few may not be opened, or reveal.
        """
        count = self.quorum.parties if contributors is None else contributors
        if not self.quorum.threshold <= count <= self.quorum.parties or not 0 <= revealing <= count:
            raise ValueError(
                f"contributors={count}, revealing={revealing}: expected {self.quorum.threshold} to "
                f"{self.quorum.parties} contributors, and at most as many who reveal."
            )
        base = self.layers[0]
        if isinstance(base, DiscreteGaussian):
            return SharedDiscreteGaussian(base.scale, count)
        if not isinstance(base, SharedDiscreteLaplace):
            return NoNoise()
        shapes = [layer.shape for layer in self._shared_layers]
        taken = sum(shapes[self.revealed_layers(count)], Fraction(0))
        return SharedDiscreteLaplace(base.scale, count * sum(shapes) - revealing * taken)

    @property
    def _shared_layers(self) -> list[SharedDiscreteLaplace]:
        return [layer for layer in self.layers if isinstance(layer, SharedDiscreteLaplace)]

    def released(self, contributors: int, revealing: int = 0) -> Mechanism:
        """Return the mechanism of a release, with the law that its noise has."""
        return replace(self.mechanism, law=self.law(contributors, revealing))

    def expected(self, contributors: int | None = None) -> Mechanism:
        """Return the mechanism of the release if so many contribute, all by default.

        With removal of the excess, everyone who contributes is taken to reveal.
        """
        count = self.quorum.parties if contributors is None else contributors
        return self.released(count, count if self.removes_excess else 0)

    def expected_error(self, workload: object, contributors: int | None = None) -> float:
        """Return the expected squared error of a workload's answers, all classes together.

        ``k variance ||W Ã⁺||²``, exact and without data; see `expected`.
        """
        made = self.expected(contributors)
        judged = evaluate(workload, made.rounded.recovery, norm=made.rounded.norm)
        return self.n_classes * made.law.variance * judged.loss / judged.sensitivity**2

    def sharing(self, central: Mechanism, workload: object = None) -> "FederatedDesign":
        """Return the design in which the same parties share another mechanism's noise."""
        made = share_noise(central, self.quorum, self.n_classes, workload, self.removes_excess)
        return replace(made, provenance=self.provenance)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything that parties must agree on before they send."""
        rounded = self.mechanism.rounded
        tree, arrays = encode(rounded.matrix, "strategy/")
        plain = {
            "strategy": tree,
            "laws": [repr(law) for law in self.layers],
            "budget": repr(self.budget),
            "neighboring": self.neighboring,
            "scale": str(rounded.scale),
            "sensitivity": str(rounded.column_sum),
            "quorum": repr(self.quorum),
            "n_classes": self.n_classes,
        }
        digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
        for name in sorted(arrays):
            values = np.ascontiguousarray(arrays[name])
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(values.tobytes())
        return digest.digest()


def federate(
    strategy: object,
    budget: PureDP | ZCDP,
    *,
    parties: int,
    dropouts: int = 0,
    colluders: int = 0,
    n_classes: int,
    neighboring: str = "add_remove",
    workload: object = None,
    remove_excess: bool = False,
) -> FederatedDesign:
    """Plan a release by several parties who do not trust each other. No data is needed.

    Parameters
    ----------
    strategy : Strategy, Operator, ndarray or scipy sparse, of shape (m, n)
        For the norm of the budget, as in `calibrate`.
    budget : PureDP or ZCDP
        Pure DP: each party draws negative binomials whose sum is discrete Laplace noise, exactly.
        zCDP: each draws discrete Gaussian noise, and the budget covers that their sum is none.
    parties, dropouts, colluders : int
        See `Quorum`.
    n_classes : int
        Columns of the answers.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        Of one party's records.
    workload : ndarray, scipy sparse or Operator of shape (q, n), optional
        What will be asked; needed where the strategy has to be rounded coarsely.
    remove_excess : bool, default=False
        Pure DP: after a sum to which more contributed than had to, take the excess of their noise
        off by a second sum.

    Returns
    -------
    FederatedDesign

    Raises
    ------
    CoarseStrategyError
        If small integers lose more than 5 % on the strategy, under pure DP.
    ValueError, TypeError
        If an argument is not of the kind described.

    Examples
    --------
    >>> from strategies.operators import Identity
    >>> design = federate(Identity(6), PureDP(1), parties=10, dropouts=3, n_classes=2)
    >>> design.layers[0].shape, design.law(7).shape, design.law(10).shape
    (Fraction(1, 7), Fraction(1, 1), Fraction(10, 7))
    """
    quorum = Quorum(parties, dropouts, colluders)
    mechanism = calibrate(strategy, budget, neighboring=neighboring, workload=workload)
    return share_noise(mechanism, quorum, n_classes, workload, remove_excess)


def share_noise(
    central: Mechanism,
    quorum: Quorum,
    n_classes: int,
    workload: object = None,
    remove_excess: bool = False,
) -> FederatedDesign:
    if type(n_classes) is not int or n_classes < 1:
        raise ValueError(f"n_classes={n_classes!r}: expected a positive whole number.")
    if central.budget.is_infinite:
        return FederatedDesign(central, quorum, n_classes, (NoNoise(),), central)
    if not central.is_proved:
        raise ValueError(
            f"law={type(central.law).__name__}: parties share proved noise only. Expected a "
            f"mechanism with law=None."
        )
    if isinstance(central.budget, PureDP):
        coarse, ratio = coarse_mechanism(central, workload)
        layers = laplace_layers(coarse.law.scale, quorum, remove_excess)
        design = FederatedDesign(coarse, quorum, n_classes, layers, central, ratio)
        return _with_law(design)
    if remove_excess:
        raise ValueError(
            "remove_excess=True with zCDP: layers of discrete Gaussian noise do not add up to one. "
            "Expected remove_excess=False, or pure DP (epsilon=)."
        )
    return _with_law(_gaussian_design(central, quorum, n_classes))


def _with_law(design: FederatedDesign) -> FederatedDesign:
    return replace(design, mechanism=replace(design.mechanism, law=design.law()))


def _gaussian_design(mechanism: Mechanism, quorum: Quorum, n_classes: int) -> FederatedDesign:
    """Return the design of discrete Gaussian shares, on a strategy scaled up for them."""
    rounded = mechanism.rounded
    # integers other than 0 have squares of at least 1, so a column has no more of them than Δ²
    shifted = (1 if mechanism.neighboring == "add_remove" else 2) * rounded.column_sum
    share = gaussian_share(
        rounded.column_sum,
        mechanism.squared_factor,
        min(shifted, rounded.matrix.shape[0] * n_classes),
        mechanism.budget.exact,
        quorum.honest,
    )
    multiple = share.multiple
    if multiple > 1:
        matrix = Scaled(multiple, rounded.matrix)
        recovery = matrix if rounded.is_unbiased else Scaled(multiple, rounded.recovery)
        rounded = replace(
            rounded,
            matrix=matrix,
            scale=rounded.scale * multiple,
            column_sum=rounded.column_sum * multiple**2,
            recovery=recovery,
        )
    law = SharedDiscreteGaussian(share.law.scale, quorum.parties)
    shared = replace(mechanism, rounded=rounded, law=law)
    return FederatedDesign(shared, quorum, n_classes, (share.law,), mechanism)
