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
from functools import partial, wraps
from numbers import Number
from threading import Lock
from typing import ClassVar, Generic, Self, TypeVar, overload

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from mrf_matrix.base.kept import kept_draws
from mrf_matrix.domain import Domain

Claim = TypeVar("Claim")

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
FITS = ("fit", "fit_counts", "fit_stream", "fit_release", "go_on")
"""Methods that learn from records, their counts, or a release of them."""

COMPARED = (str, Number, Domain)
"""Values that may be replaced by equal ones; of all others the very object must stay."""

SHOWN = 60  # longest value that a message shows

_commit = Lock()


@dataclass(frozen=True, eq=False)
class ClaimRecord:
    """The parameters of an estimator that its claim rests on, as `fit` read them."""

    values: Mapping[str, object]  # by name; sequences and arrays are copied

    @classmethod
    def of(cls, estimator: object, names: tuple[str, ...]) -> Self:
        """Return the record of the parameters that are among these names."""
        held = vars(estimator)
        return cls({name: _kept(held[name]) for name in names if name in held})

    def check(self, estimator: object) -> None:
        """Refuse an estimator of which one of these parameters was changed since.

        Raises ValueError: it names the parameter.
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

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        for name in FITS:
            if name in vars(cls):
                setattr(cls, name, _fixing(vars(cls)[name]))

    def _fix_claim(self) -> None:
        """Record what the claim rests on, as it stands now."""
        vars(self)[RECORD] = self._claim_now()

    def _claim_now(self) -> ClaimRecord:
        """Return what a claim would rest on."""
        return ClaimRecord.of(self, (*RESTS_ON, *self._claim_rests_on))

    def _check_claim(self) -> None:
        """Refuse, by name, a parameter that was changed since the claim was fixed."""
        record: ClaimRecord | None = vars(self).get(RECORD)
        if record is not None:
            record.check(self)


class ClaimAttribute(Generic[Claim]):
    """A fitted attribute that states a claim: refused once a parameter under it was changed.

    A `partial` that is set is worked out when it is first asked for.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...

    @overload
    def __get__(self, estimator: FixedClaim, owner: type) -> Claim: ...

    def __get__(self, estimator: FixedClaim | None, owner: type) -> Self | Claim:
        """Return what `fit` set."""
        if estimator is None:
            return self
        held = vars(estimator)
        if self._name not in held:
            kind = type(estimator)
            if getattr(kind, "_learned", "classes_") not in held:  # an AttributeError as well
                raise NotFittedError(
                    f"This {kind.__name__} is not fitted yet, so it has no {self._name}. Call "
                    f"fit(X, y) first."
                )
            raise AttributeError(f"{kind.__name__} has no {self._name}: it claims nothing.")
        estimator._check_claim()
        stated: Claim | partial[Claim] = held[self._name]
        if isinstance(stated, partial):
            stated = held[self._name] = stated()
        return stated

    def __set__(self, estimator: FixedClaim, value: Claim | partial[Claim]) -> None:
        vars(estimator)[self._name] = value

    def __delete__(self, estimator: FixedClaim) -> None:
        del vars(estimator)[self._name]


def check_claim(estimator: object) -> None:
    """Refuse a fitted estimator of which a parameter under its claim was changed since.

    Raises ValueError: it names the parameter.
    """
    if isinstance(estimator, FixedClaim):
        estimator._check_claim()


def keep_if_fit_fails(estimator: object) -> None:
    """Say within `fit` that what it has set by now is paid for: it stays if the rest fails.

    Of a fit that fails before, nothing stays.
    """
    vars(estimator)[PAID] = True


def _fixing(fit: Callable[..., object]) -> Callable[..., object]:
    """Return `fit` as it works on a draft, whose attributes are put in place at once."""

    @wraps(fit)
    def fitted(self: FixedClaim, *args: object, **keywords: object) -> object:
        if DRAFT in vars(self):  # called by the fit of a subclass
            return fit(self, *args, **keywords)
        if "sample_weight" in keywords:
            raise TypeError(
                f"{type(self).__name__}.{fit.__name__} takes no sample_weight: every record counts "
                f"once, and noise and claim are for that. Leave it out."
            )
        start = dict(vars(self))
        draft = object.__new__(type(self))
        vars(draft).update(start, **{DRAFT: True})
        with kept_draws():
            try:
                fit(draft, *args, **keywords)
                draft._fix_claim()
                _put_all(self, vars(draft))
            except BaseException:
                if PAID in vars(draft):
                    _put_changes(self, start, vars(draft))
                raise
        return self

    return fitted


def _put_all(estimator: FixedClaim, learned: Mapping[str, object]) -> None:
    """Give an estimator all that was learned, and nothing of an earlier fit, in one step."""
    with _commit:
        own = {name: vars(estimator)[name] for name in _parameters(estimator)}
        estimator.__dict__ = {k: v for k, v in learned.items() if k not in (DRAFT, PAID)} | own


def _put_changes(
    estimator: FixedClaim, start: Mapping[str, object], learned: Mapping[str, object]
) -> None:
    """Give an estimator what a fit changed before it failed; the claim on record stays."""
    own = {*_parameters(estimator), DRAFT, PAID, RECORD}
    changed = {k: v for k, v in learned.items() if k not in own and start.get(k, own) is not v}
    dropped = start.keys() - learned.keys()
    with _commit:
        kept = {k: v for k, v in vars(estimator).items() if k not in dropped}
        estimator.__dict__ = kept | changed


def _parameters(estimator: BaseEstimator) -> list[str]:
    return [name for name in estimator._get_param_names() if name in vars(estimator)]


def _kept(value: object) -> object:
    """Return a value that later changes of lists and arrays do not reach."""
    if isinstance(value, np.ndarray | list | tuple):
        return tuple(map(_kept, np.atleast_1d(value) if isinstance(value, np.ndarray) else value))
    return value


def _is_same(kept: object, now: object) -> bool:
    if isinstance(kept, tuple) and isinstance(now, tuple):
        return len(kept) == len(now) and all(map(_is_same, kept, now))
    both = isinstance(kept, COMPARED) and isinstance(now, COMPARED)
    return kept is now or (both and bool(kept == now))


def _shown(kept: object, now: object) -> str:
    """Return "from ... to ..." where both are short words or numbers."""
    texts = [repr(value) for value in (kept, now) if isinstance(value, str | Number | None)]
    if len(texts) < 2 or max(map(len, texts)) > SHOWN:
        return ""
    return f" from {texts[0]} to {texts[1]}"
