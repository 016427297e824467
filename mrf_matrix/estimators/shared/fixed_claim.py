"""What a claim of privacy rests on is fixed by `fit`: the same for every estimator.

A parameter may be changed at any time, as scikit-learn allows: by ``set_params``, by assignment,
by mutating a list, from another thread. So two things are done. `fit` works on a draft of the
estimator, with the parameters as they stood when it was called, and all that it learned is put in
place at once: two fits of one object at the same time leave the one or the other, never a mixture.
And the parameters that the claim rests on are recorded; whatever is asked of the fitted estimator
later compares them, and refuses by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from numbers import Number
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np

from mrf_matrix.domain import Domain

RESTS_ON = (
    "domain",
    "epsilon",
    "rho",
    "delta",
    "neighboring",
    "noise",
    "noise_state",
    "allocation",
    "budget_shares",
    "n_batches",
    "ledger",
)
"""Parameters that every claim rests on, where an estimator has them."""

RECORD, DRAFT, PAID = "_claim_record", "_is_draft", "_was_paid"
FITS = ("fit", "fit_counts", "fit_stream", "fit_release")
"""Methods that learn from records, their counts, or a release of them."""

COMPARED = (str, Number, Domain)
"""Values that may be replaced by equal ones; of all others the very object must stay."""

SHOWN = 60
"""Longest value that a message shows."""

_commit = Lock()


@dataclass(frozen=True, eq=False)
class ClaimRecord:
    """The parameters of an estimator that its claim rests on, as `fit` read them.

    Attributes
    ----------
    values : mapping of str
        By name; sequences and arrays are copied.
    """

    values: Mapping[str, Any]

    @classmethod
    def of(cls, estimator: Any, names: tuple[str, ...]) -> Self:
        """Return the record of the parameters that are among these names."""
        held = vars(estimator)
        return cls({name: _kept(held[name]) for name in names if name in held})

    def check(self, estimator: Any) -> None:
        """Refuse an estimator of which one of these parameters was changed since.

        Raises
        ------
        ValueError
            It names the parameter.
        """
        for name, kept in self.values.items():
            now = vars(estimator).get(name)
            if not _is_same(kept, _kept(now)):
                raise ValueError(
                    f"{name} was changed{_shown(kept, now)} after fit: what was measured, and what "
                    f"is claimed of it, rest on the value that fit read. Fit again, or set it back "
                    f"with set_params({name}=...)."
                )


class FixedClaim:
    """An estimator whose claim rests on parameters as `fit` read them.

    Subclasses name in `_claim_rests_on` what their claim rests on beside `RESTS_ON`. Every
    method among `FITS` that they define works on a draft and fixes the claim, without a word of
    their own.
    """

    _claim_rests_on: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in FITS:
            if name in vars(cls):
                setattr(cls, name, _fixing(vars(cls)[name]))

    def _fix_claim(self) -> None:
        """Record what the claim rests on, as it stands now."""
        names = (*RESTS_ON, *self._claim_rests_on)
        vars(self)[RECORD] = ClaimRecord.of(self, names)

    def _check_claim(self) -> None:
        """Refuse, by name, a parameter that was changed since the claim was fixed."""
        record: ClaimRecord | None = vars(self).get(RECORD)
        if record is not None:
            record.check(self)


class ClaimAttribute:
    """A fitted attribute that states a claim: refused once a parameter under it was changed."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        """Return what `fit` set."""
        if estimator is None:
            return self
        if self._name not in vars(estimator):
            raise AttributeError(
                f"{type(estimator).__name__} has no {self._name}: it is not fitted, or claims "
                f"nothing."
            )
        estimator._check_claim()
        return vars(estimator)[self._name]

    def __set__(self, estimator: Any, value: Any) -> None:
        vars(estimator)[self._name] = value

    def __delete__(self, estimator: Any) -> None:
        del vars(estimator)[self._name]


def check_claim(estimator: Any) -> None:
    """Refuse a fitted estimator of which a parameter under its claim was changed since.

    Raises
    ------
    ValueError
        It names the parameter.
    """
    if isinstance(estimator, FixedClaim):
        estimator._check_claim()


def keep_if_fit_fails(estimator: object) -> None:
    """Say within `fit` that what it has set by now is paid for: it stays if the rest fails.

    Of a fit that fails before, nothing stays.
    """
    vars(estimator)[PAID] = True


def _fixing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fit` as it works on a draft, whose attributes are put in place at once."""

    @wraps(fit)
    def fitted(self: Any, *args: Any, **keywords: Any) -> Any:
        if DRAFT in vars(self):  # called by the fit of a subclass
            return fit(self, *args, **keywords)
        start = dict(vars(self))
        draft = object.__new__(type(self))
        vars(draft).update(start, **{DRAFT: True})
        try:
            fit(draft, *args, **keywords)
        except BaseException:
            if PAID in vars(draft):
                _put_changes(self, start, vars(draft))
            raise
        draft._fix_claim()
        _put_all(self, vars(draft))
        return self

    return fitted


def _put_all(estimator: Any, learned: dict[str, Any]) -> None:
    """Give an estimator all that was learned, and nothing of an earlier fit, in one step."""
    with _commit:
        own = {name: vars(estimator)[name] for name in _parameters(estimator)}
        estimator.__dict__ = {k: v for k, v in learned.items() if k not in (DRAFT, PAID)} | own


def _put_changes(estimator: Any, start: dict[str, Any], learned: dict[str, Any]) -> None:
    """Give an estimator what a fit changed before it failed; the claim on record stays."""
    own = {*_parameters(estimator), DRAFT, PAID, RECORD}
    changed = {k: v for k, v in learned.items() if k not in own and start.get(k, own) is not v}
    dropped = start.keys() - learned.keys()
    with _commit:
        kept = {k: v for k, v in vars(estimator).items() if k not in dropped}
        estimator.__dict__ = kept | changed


def _parameters(estimator: Any) -> list[str]:
    return [name for name in estimator._get_param_names() if name in vars(estimator)]


def _kept(value: Any) -> Any:
    """Return a value that later changes of lists and arrays do not reach."""
    if isinstance(value, np.ndarray | list | tuple):
        return tuple(map(_kept, np.atleast_1d(value) if isinstance(value, np.ndarray) else value))
    return value


def _is_same(kept: Any, now: Any) -> bool:
    if isinstance(kept, tuple) and isinstance(now, tuple):
        return len(kept) == len(now) and all(map(_is_same, kept, now))
    both = isinstance(kept, COMPARED) and isinstance(now, COMPARED)
    return kept is now or (both and bool(kept == now))


def _shown(kept: Any, now: Any) -> str:
    """Return "from ... to ..." where both are short words or numbers."""
    texts = [repr(value) for value in (kept, now) if isinstance(value, str | Number | None)]
    if len(texts) < 2 or max(map(len, texts)) > SHOWN:
        return ""
    return f" from {texts[0]} to {texts[1]}"
