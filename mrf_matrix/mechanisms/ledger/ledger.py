"""One ledger for everything that is spent on the same records; a copy of it is the same ledger.

*One ledger, never two: what a copy, a clone and a pickle of a ledger give.* Two copies of one
ledger would each spend its budget. So a copy is the ledger itself, a pickle loaded where the ledger
lives is that ledger, and one loaded elsewhere shows and never spends. A ledger in a file lives
wherever that file is, as long as it still is that ledger.
"""

import json
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from mrf_matrix.base.display import Cells, Tabular, align_columns, html_table
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending
from mrf_matrix.mechanisms.budget import ZCDP, PureDP, checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import (
    HEADER,
    Account,
    Amount,
    Charge,
    LedgerTerms,
    Total,
    amount_in,
    as_table,
    rows_of,
    statement,
    total_of,
)
from mrf_matrix.mechanisms.ledger.file import (
    ELSEWHERE,
    RECORD,
    FileStore,
    LedgerError,
    MemoryStore,
    ReadOnlyStore,
    Store,
    open_store,
    read_file,
    read_record,
    record_of,
)
from mrf_matrix.mechanisms.ledger.filter_state import Amounts, FilterState
from mrf_matrix.mechanisms.ledger.rules import (
    add_charges,
    checked_words,
    record_charge,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_LIVING: "WeakValueDictionary[str, SharedLedger]" = WeakValueDictionary()


class SharedLedger:
    """A ledger's terms and store, and why there is one of it, whatever copies, clones, pickles."""

    _terms: LedgerTerms
    _store: Store
    _token: str

    @classmethod
    def _with_store(cls, terms: LedgerTerms, store: Store, token: str | None = None) -> Self:
        ledger = cls.__new__(cls)
        ledger._set(terms, store, token or uuid4().hex)
        return ledger

    def _set(self, terms: LedgerTerms, store: Store, token: str) -> None:
        """Hold terms and store; a ledger of this process is known by its token while it lives."""
        self._terms, self._store, self._token = terms, store, token
        if isinstance(store, MemoryStore):
            _LIVING[token] = self

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        """Return the ledger itself: clones of an estimator spend from one budget."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Return enough to tell, where it is loaded, whether a file is still this ledger."""
        kind, store = type(self), self._store
        if isinstance(store, FileStore):
            known = store.identity, self._terms, store.last_account()
            return ledger_of_file, (kind, shortest_path(store.path), *known)
        reason = store.reason if isinstance(store, ReadOnlyStore) else ELSEWHERE
        return living_ledger, (kind, self._token, self._terms, store.read(), reason)


def living_ledger(
    kind: type[SharedLedger], token: str, terms: LedgerTerms, account: Account, reason: str
) -> SharedLedger:
    """Return the living ledger where it lives, and a read-only copy elsewhere."""
    living = _LIVING.get(token)
    if living is not None:
        return living
    return kind._with_store(terms, ReadOnlyStore(account, reason), token)


def ledger_of_file(
    kind: type[SharedLedger], path: str, identity: str, terms: LedgerTerms, account: Account
) -> SharedLedger:
    """Return the ledger of a file if it is the one that was pickled, else a read-only copy.

    It is the one if identity and terms are equal, and its charges begin with those that were
    pickled: others may have charged it since.
    """
    file = Path(path).resolve()
    away = kind._with_store(terms, ReadOnlyStore(account, AWAY), identity)
    try:
        found_terms, found, found_identity = read_file(file)
    except LedgerError:
        return away
    known = found.charges[: len(account.charges)]
    if (found_identity, found_terms, known) != (identity, terms, account.charges):
        return away
    return kind._with_store(terms, FileStore(file, terms, identity, found), identity)


def shortest_path(path: Path) -> str:
    """Return a path relative to the current folder, which it does not name, where it can."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


AWAY = (
    "this is a copy of a PrivacyLedger whose file is not here, or no longer is that ledger: it "
    "shows what was spent when it was copied, and takes no charges. Continue on the ledger's own "
    "file: set_params(ledger=PrivacyLedger.open(path))."
)


class PrivacyLedger(SharedLedger, Tabular):
    """A total budget for one set of records, and every charge against it, exact.

    A charge that does not fit is refused before any record is read. Amounts are fractions, and
    charges add up: by sequential composition their sum bounds the loss of all releases together,
    also where each was chosen after seeing the ones before.

    Parameters
    ----------
    budget : PureDP, ZCDP or ApproximateDP, optional
        The total. A zCDP ledger also takes pure-DP charges, as ρ = ε²/2; a pure-DP ledger
        refuses zCDP charges; one of (ε, δ) takes both, by a privacy filter (see `FilterState`).
    epsilon, rho, delta : number, optional
        The total as a number, instead of ``budget``; (ε, δ) where ``delta`` is given and not 0.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The one neighbouring relation; charges under the other are refused.

    Raises
    ------
    BudgetError
        If the total is not given exactly once, or not positive.

    Notes
    -----
    Estimators take it as their parameter ``ledger`` and charge it in every `fit`. `copy`,
    `deepcopy` and `sklearn.clone` return the ledger itself, so that grid search in this process
    charges each fit. In another process, or a forked child, a pickle shows the figures and refuses
    to spend; see `open` for a ledger that processes share. Releases without privacy (an infinite
    budget, research noise) are listed as such, and `is_private` turns false.

    Examples
    --------
    >>> ledger = PrivacyLedger(epsilon=1)
    >>> _ = ledger.charge(PureDP(0.1), "class totals", neighboring="add_remove")
    >>> _ = ledger.charge(PureDP(0.2), "forest", neighboring="add_remove")
    >>> ledger.spent, ledger.remaining
    (Fraction(3, 10), Fraction(7, 10))
    >>> ledger.charge(PureDP(0.8), "more", neighboring="add_remove")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mrf_matrix.base.checks.BudgetError: more asks for epsilon=0.8, but of ...
    """

    def __init__(
        self,
        budget: Total | None = None,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        neighboring: str = "add_remove",
    ) -> None:
        terms = LedgerTerms(total_of(budget, epsilon, rho, delta), checked_neighboring(neighboring))
        self._set(terms, MemoryStore(terms.opening_account), uuid4().hex)

    @classmethod
    def open(
        cls,
        path: "str | PathLike[str]",
        budget: Total | None = None,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        neighboring: str | None = None,
    ) -> Self:
        """Return the ledger of a file, which is made if there is none and a total is given.

        The file is the JSON of `to_json`, read anew and written for every charge under a lock (a
        file beside it, with ``.lock`` added): any number of processes, today and later, spend from
        one budget. To look needs the right to read only.

        Parameters
        ----------
        path : str or path
        budget, epsilon, rho, delta, neighboring
            Needed for a new file (``neighboring`` is "add_remove" unless given); for an old one
            optional, and compared.

        Raises
        ------
        BudgetError
            If there is no file and no total, or the file is a ledger of other terms.
        LedgerError
            If the file is no ledger, does not add up, cannot be read or made, or is one of several
            hard links, which charges would part.
        """
        nothing = (budget, epsilon, rho, delta) == (None, None, None, None)
        total = None if nothing else total_of(budget, epsilon, rho, delta)
        store = open_store(Path(path).resolve(), total, neighboring)
        return cls._with_store(store.terms, store, store.identity)

    @property
    def budget(self) -> Total:
        """The total budget."""
        return self._terms.budget

    @property
    def neighboring(self) -> str:
        """The neighbouring relation of every charge."""
        return self._terms.neighboring

    @property
    def identity(self) -> str:
        """32 digits that tell this ledger from all others; they stay with its file."""
        return self._token

    @property
    def account(self) -> Account:
        """The charges and their sum, as they stand now."""
        return self._store.read()

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge, in order."""
        return self.account.charges

    @property
    def spent(self) -> Amount | Amounts:
        """Sum of the charges, exact, in the unit of the budget; under (ε, δ) of ε, and of ρ."""
        spent = self.account.spent
        return spent.amounts if isinstance(spent, FilterState) else spent

    @property
    def remaining(self) -> Amount | Amounts:
        """What is left, exact; infinite where the budget is.

        Under (ε, δ): ``.epsilon``, the largest pure charge that would fit, and ``.rho``, the
        largest of zCDP: either, not both.
        """
        return self._terms.remaining(self.account)

    @property
    def shares(self) -> list[Amount]:
        """Each charge's share of a finite total; they add up to 1 where it is used up."""
        return self._terms.shares(self.account)

    @property
    def is_private(self) -> bool:
        """Whether noise and budget protect what every charge paid for."""
        return self.account.is_private

    @property
    def statement(self) -> str:
        """One sentence on what is, or is not, claimed for everything charged."""
        return statement(self._terms, self.account)

    @property
    def is_open(self) -> bool:
        """Whether it takes charges here: a copy in another process does not."""
        try:
            self._store.check()
        except ValueError:
            return False
        return True

    def check(
        self,
        budget: PureDP | ZCDP,
        what: str,
        neighboring: str,
        *,
        noise: str = "exact",
        rests_on: Provenance = NOTHING,
    ) -> None:
        """Refuse what `charge` would refuse, and spend nothing.

        Called before the records are read; `charge` comes right before they are measured.
        """
        self._store.check()
        own = Spending(budget, neighboring, noise, what)
        add_charges(self._terms, self._store.read(), own, rests_on)

    def charge(
        self,
        budget: PureDP | ZCDP,
        what: str,
        neighboring: str,
        *,
        noise: str = "exact",
        rests_on: Provenance = NOTHING,
        identity: str | None = None,
    ) -> Charge:
        """Spend, or refuse. Called before the records are measured.

        Parameters
        ----------
        budget : PureDP or ZCDP
        what : str
            What it pays for, to be published with the ledger: nothing private.
        neighboring, noise : str
            Of the release.
        rests_on : Provenance, optional
            That of what the release is made with. Charges in it that this ledger has not paid for
            are added, each under its own identity.
        identity : str, optional
            By which the provenance of what is released knows the charge; a new one by default.

        Raises
        ------
        BudgetError
            If it does not fit, has another neighbouring relation, or the ledger is a copy in
            another process. The ledger is as it was before.
        NoiseProcessError
            If the noise is exact and this is a worker process, where none may be drawn.
        """
        own = Spending(budget, neighboring, noise, what)
        own = own if identity is None else replace(own, identity=identity)
        account = self._store.update(lambda before: add_charges(self._terms, before, own, rests_on))
        record_charge(account.charges[-1])
        return account.charges[-1]

    def has_charged(self, identity: str) -> bool:
        """Tell whether there is a charge of an identity, or may be: the file cannot be read."""
        try:
            return any(one.identity == identity for one in self.charges)
        except LedgerError:
            return True

    def describe(self, number: int, **words: str) -> None:
        """Say of a charge what the release is for, and of which records and model it is.

        Parameters
        ----------
        number : int
            `Charge.number`.
        **words : str
            ``purpose``, ``data`` (a name), ``model`` (a hash): one line each, published with the
            ledger, so they name nothing private. What was told once stays.

        Raises
        ------
        ValueError
            If there is no such charge, a word is none of these, or it was told otherwise before.
        """
        known = checked_words(words)
        self._store.update(lambda account: account.with_words(number, known))

    def spent_epsilon(self, delta: float) -> float:
        """Return an ε for which everything charged is (ε, δ)-DP together.

        The sum of the charges' ρ (ρ = ε²/2 of a pure charge) is converted through dp-accounting,
        see `ZCDP.epsilon`. The plain sum of the pure charges beside the conversion of the others
        holds as well, and the smaller is returned: ρ gains where many were small. δ is well below
        one over the number of records. It holds if the amounts were not chosen by looking at
        earlier private answers; that the *total* is kept holds whatever is asked (a privacy filter;
        Feldman and Zrnic, 2021).
        """
        budgets = [charge.budget for charge in self.charges]
        ZCDP(1).epsilon(delta)  # refuses a delta that is none, whatever was charged
        if not budgets:
            return 0.0
        if any(budget.is_infinite for budget in budgets):
            return float("inf")
        rho = sum((Fraction(amount_in(ZCDP, budget)) for budget in budgets), Fraction(0))
        pure = sum((one.exact for one in budgets if isinstance(one, PureDP)), Fraction(0))
        gaussian = sum((one.exact for one in budgets if isinstance(one, ZCDP)), Fraction(0))
        apart = float(pure) + (ZCDP(gaussian).epsilon(delta) if gaussian else 0.0)
        return min(ZCDP(rho).epsilon(delta), apart)

    def to_dict(self) -> JsonObject:
        """Return the ledger as plain values, ready for JSON; fractions as exact text."""
        return record_of(self._terms, self.account, self.identity)

    def to_json(self) -> str:
        """Return the record for a paper's appendix, as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_dict(cls, record: object) -> Self:
        """Return the ledger of a record, to look at: it takes no charges.

        Raises
        ------
        LedgerError
            If the record is none of `to_dict`, or does not add up.
        """
        terms, account, identity = read_record(record)
        return cls._with_store(terms, ReadOnlyStore(account, RECORD), identity)

    @property
    def cells(self) -> Cells:
        """A line a charge, under its header."""
        return HEADER, rows_of(self.account)

    def __repr__(self) -> str:
        account = self.account
        number, spent = len(account.charges), self._terms.spent_words(account)
        return (
            f"PrivacyLedger({self.budget!r}, spent {spent} in {number} "
            f"charge{'' if number == 1 else 's'}, {self.neighboring})"
        )

    def __str__(self) -> str:
        account = self.account
        lines = align_columns([HEADER, *rows_of(account)]) if account.charges else []
        return "\n".join([statement(self._terms, account), *lines])

    def __rich__(self) -> "Table | Text":
        return as_table(self._terms, self.account)

    def _repr_html_(self) -> str:
        account = self.account
        return html_table(statement(self._terms, account), rows_of(account), HEADER)
