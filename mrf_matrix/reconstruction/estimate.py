"""What an estimator returns: answers, and their expected error or the word that none is known."""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, plain_floats
from mrf_matrix.mechanisms.statement import Claim


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimate:
    """Estimated answers of a workload, from releases alone.

    Parameters
    ----------
    values : ndarray of shape (q, k)
        A row for each query, a column for each class, in records.
    variances : ndarray of shape (q,) or None
        Expected squared error of every row in each class: exact, whatever the data are. None
        where it depends on the data; then `note` says so.
    method : str
        The estimator's name.
    note : str
        What a reader of the values must know. Required where there are no variances.
    claim : Claim, optional
        Of the releases behind the answers, see `claim_of`; where it is none of privacy the display
        says so. None where no release is known.
    """

    values: Array
    variances: Array | None
    method: str
    note: str = ""
    claim: Claim | None = None

    def __post_init__(self) -> None:
        values = _read_only("values", self.values, None)
        if values.ndim != 2:
            raise ValueError(f"values has shape {values.shape}: expected (q, k).")
        object.__setattr__(self, "values", values)
        if self.variances is not None:
            kept = _read_only("variances", self.variances, len(values))
            object.__setattr__(self, "variances", kept)
        if self.variances is None and not self.note:
            raise ValueError("note is empty: expected why there are no variances.")

    @property
    def expected_error(self) -> float | None:
        """Expected squared error summed over rows and classes; None where it has none."""
        if self.variances is None:
            return None
        return float(self.values.shape[1] * self.variances.sum())

    @property
    def row_rms(self) -> Array | None:
        """Root-mean-square error of every row, in records; None where it has none."""
        return None if self.variances is None else np.sqrt(self.variances)

    def __repr__(self) -> str:
        rows, classes = self.values.shape
        error = self.expected_error
        known = "no expected error" if error is None else f"expected_error={error:.6g}"
        said = [f"{rows} x {classes}, {self.method}, {known}", self.note.rstrip(".")]
        if self.claim is not None and not self.claim.is_private:
            said.append(self.claim.statement.rstrip("."))
        return f"{type(self).__name__}({'. '.join(filter(None, said))})"


def _read_only(name: str, given: Array, length: int | None) -> Array:
    """Return a read-only view of finite floats of the expected length."""
    array = plain_floats(name, given)
    if length is not None and array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape}: expected ({length},), one for each row.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite: expected finite estimates.")
    view = array.view()
    view.flags.writeable = False
    return view
