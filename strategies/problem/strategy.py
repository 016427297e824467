"""A selected strategy: the matrix, what it costs, and how far from optimal it can be."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any, cast

import numpy as np

from strategies.operator_files.codec import read_operator, write_operator
from strategies.operator_files.fields import OperatorFileError
from strategies.operators import (
    Array,
    Dense,
    Norm,
    Operator,
    as_operator,
    check_allocation,
    errors_of_determined_rows,
    estimate,
)
from strategies.operators import row_errors as errors_of_rows
from strategies.problem.problem import Objective

FORMAT = "strategies.strategy.1"
KEPT = ("norm", "loss", "lower_bound", "method", "objective")
"""The fields of a strategy that a file keeps beside its matrix."""


@dataclass(frozen=True)
class Candidate:
    """The result of one family.

    Attributes
    ----------
    family : str
    loss : float
        Recomputed from the matrix; infinite where the family failed.
    seconds : float
        Wall time of the search.
    note : str
        How it started, or why it failed.
    matrix : Operator or None
        The strategy, unless it is an explicit dense array: those can be large, and only the best
        of them is kept, as `Strategy.matrix`.
    """

    family: str
    loss: float
    seconds: float
    note: str = ""
    matrix: Operator | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Strategy:
    """A strategy matrix with its loss on a workload and a certificate beside it.

    Attributes
    ----------
    matrix : Operator of shape (m, n)
        What is measured: ``y = A D + noise``.
    norm : {"l1", "l2"}
        Column norm that the noise pays for: "l1" for Laplace, "l2" for Gaussian noise.
    sensitivity : float
        Largest column norm of the matrix, under add/remove neighbours; an upper bound, safe for
        privacy, where `sensitivity_is_exact` is False.
    loss : float
        ``sensitivity**2 * ||W A⁺||_F²``, total over the workload's rows and per class column,
        before the noise constant: 2/ε² for Laplace, 1/(2ρ) for Gaussian noise under ρ-zCDP. With
        objective "max" the largest share of one row or group of rows; rows times their weights.
    method : str
        The family that found it, "given" for a matrix of the user's.
    certificate : callable
        Computes the lower bound when it is asked for.
    candidates : tuple of Candidate
        What every family reached, best first.
    truncated : bool
        Whether the clock stopped the portfolio before all families had searched.
    objective : {"total", "max"}
        What the loss, the lower bound and their ratio speak of.
    """

    matrix: Operator
    norm: Norm
    sensitivity: float
    loss: float
    method: str
    certificate: Callable[[], float] = field(repr=False)
    candidates: tuple[Candidate, ...] = field(default=(), repr=False)
    truncated: bool = False
    objective: Objective = "total"

    @cached_property
    def lower_bound(self) -> float:
        """A certified bound: no strategy of this norm has a smaller loss on the workload.

        Computed on first access, since it can cost more than a cheap strategy itself.
        """
        # the loss is a sum of rounded terms: a certificate never exceeds it by less than that
        bound = self.certificate()
        return min(bound, self.loss) if bound <= self.loss * (1 + 1e-9) else bound

    @property
    def certified_ratio(self) -> float:
        """``loss / lower_bound``: the strategy is at most this far from optimal; inf without."""
        return self.loss / self.lower_bound if self.lower_bound > 0 else float("inf")

    @property
    def sensitivity_is_exact(self) -> bool:
        """Whether the sensitivity is the largest column norm itself, not a bound above it."""
        return self.matrix.sensitivity_is_exact(self.norm)

    @property
    def error(self) -> float:
        """``||W A⁺||_F²``: the loss over the squared sensitivity, of the objective."""
        return self.loss / self.sensitivity**2

    @cached_property
    def gram(self) -> Operator:
        """``AᵀA``, (n, n), refused above the memory cap."""
        return Dense(self.matrix.gram_dense())

    @cached_property
    def pinv(self) -> Operator:
        """``A⁺``, (n, m), refused above the memory cap: ``pinv @ y`` estimates every cell.

        Examples
        --------
        >>> import strategies
        >>> strategies.evaluate([[1, 1], [1, -1]]).pinv.toarray()
        array([[ 0.5,  0.5],
               [ 0.5, -0.5]])
        """
        m, n = self.matrix.shape
        check_allocation("A⁺ (pseudo-inverse of the strategy matrix)", (max(n, m), m))
        return Dense(self.matrix.least_squares(np.eye(m)))

    def reconstruction(self, workload: object) -> Operator:
        """Return ``W A⁺``, (q, m): what takes answers y back to a workload, ``W A⁺ y``.

        The squared entries of row r add up to the error of query r; those of column i say what the
        noise of answer i does to all queries.

        Parameters
        ----------
        workload : ndarray, scipy sparse, or Operator of shape (q, n)

        Raises
        ------
        RowSpaceError
            If the matrix does not determine a row.
        MemoryCapError
            If it would not fit the memory cap.

        Examples
        --------
        >>> import strategies
        >>> W = [[1, 1], [1, 0]]
        >>> found = strategies.evaluate(W, [[1, 1], [1, -1]], "l2")
        >>> back = found.reconstruction(W).toarray()
        >>> abs(back).round(6)
        array([[1. , 0. ],
               [0.5, 0.5]])
        >>> round(float((back**2).sum()), 9), round(found.error, 9)
        (1.5, 1.5)
        """
        asked = as_operator(workload, "workload")
        m = self.matrix.shape[0]
        check_allocation("W A⁺", (max(asked.shape[0], m), m))
        errors_of_rows(asked, self.matrix)  # refuses rows that it does not determine
        return Dense(estimate(asked, self.matrix, np.eye(m)))

    def __matmul__(self, right: Any) -> Any:
        """Return ``A @ right``, as ``strategy.matrix @ right``."""
        return self.matrix @ right

    @property
    def alternatives(self) -> tuple["Strategy", ...]:
        """The other strategies found whose matrices were kept, best first.

        Their losses are larger, but a loss is an error under continuous noise: where noise is of
        integers and coarse, one of them may be better.
        """
        return tuple(
            replace(
                self,
                matrix=one.matrix,
                sensitivity=one.matrix.sensitivity(self.norm),
                loss=one.loss,
                method=one.family,
            )
            for one in self.candidates
            if one.matrix is not None and one.matrix is not self.matrix
        )

    def __str__(self) -> str:
        """Describe the strategy, and how far from optimal it can be, if a bound is known."""
        known = (
            f"at most {self.certified_ratio:.4g} times the optimum"
            if self.lower_bound > 0
            else "no lower bound is known, so it may be far from the optimum"
        )
        parts = f"{self.sensitivity**2:.6g} x {self.error:.6g}"
        error = "||W A⁺||_F²" if self.objective == "total" else "the largest ||(W A⁺)_r||²"
        named = f"||A||_{self.norm[1]}² x {error}"
        found = f"{self.method}: loss {self.loss:.6g} = {parts} ({named}), {self.matrix!r}"
        notes = [one.note for one in self.candidates if one.family == self.method and one.note]
        return "; ".join([found, *notes, known])

    def __getstate__(self) -> dict[str, object]:
        """Pickle the bound instead of the workload, which may hold a user's test records."""
        return self.__dict__ | {"certificate": partial(float, self.lower_bound)}

    def save(self, path: "str | PathLike[str]") -> None:
        """Write the strategy to a file that `load` reads: its matrix by structure, no pickle.

        The lower bound is computed and kept; the workload, which may hold test records, is not.

        Raises
        ------
        OperatorFileError
            If the matrix's structure has no form in files.
        """
        kept = {name: getattr(self, name) for name in KEPT}
        write_operator(self.matrix, {"format": FORMAT, **kept}, path)

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Strategy":
        """Return the strategy of a file, which may come from anyone.

        Its sensitivity is computed from the matrix. Its loss and lower bound are the writer's word:
        ``strategies.evaluate(workload, loaded.matrix)`` computes them anew.

        Raises
        ------
        OperatorFileError
            If it is no such file, or does not hold together.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import strategies
        >>> with TemporaryDirectory() as folder:
        ...     strategies.evaluate([[1, 1], [0, 1]], [[1, 0], [0, 1]]).save(folder + "/a.strategy")
        ...     Strategy.load(folder + "/a.strategy").loss
        3.0
        """
        matrix, values = read_operator(path)
        if values.pop("format", None) != FORMAT or set(values) != set(KEPT):
            raise OperatorFileError(f"{path} holds an operator, but no strategy.")
        loss, bound, method = values["loss"], values["lower_bound"], values["method"]
        numbers = all(type(one) in (int, float) and one >= 0 for one in (loss, bound))  # type: ignore[operator]
        words = values["norm"] in ("l1", "l2") and values["objective"] in ("total", "max")
        if not (numbers and words and isinstance(method, str) and method.isprintable()):
            raise OperatorFileError(f"{path} is no strategy: a field is of another kind.")
        norm = cast(Norm, values["norm"])
        return cls(
            matrix, norm, matrix.sensitivity(norm), float(cast(float, loss)), method[:200],
            partial(float, cast(float, bound)), objective=cast(Objective, values["objective"]),
        )  # fmt: skip

    def row_errors(self, workload: object) -> Array:
        """Return ``sensitivity**2 * ||(W A⁺)_r||²`` of every row of a workload, shape (q,).

        Without weights, whatever the objective.

        Parameters
        ----------
        workload : ndarray, scipy sparse, or Operator of shape (q, n)
            The workload it was selected for, or any other in the matrix's row space.

        A row that the matrix does not determine has the error infinity, for instance one whose
        weight was zero.

        Raises
        ------
        RowSpaceError
            If there is such a row, and the matrix is too large to tell which.
        """
        errors = errors_of_determined_rows(as_operator(workload, "workload"), self.matrix)
        return self.sensitivity**2 * errors
