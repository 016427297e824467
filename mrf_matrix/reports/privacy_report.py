"""What a fitted estimator may say of its privacy: every figure computed, every mode labelled."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from mrf_matrix.base.display import RowDisplay
from mrf_matrix.base.fields import FieldError, JsonObject
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.mechanisms import ZCDP, PureDP, Release
from mrf_matrix.mechanisms.statement import Claim, provenance_to_dict

BUDGET = re.compile(r"(PureDP|ZCDP)\((?:epsilon|rho)=([0-9./e+-]+|inf)\)")
KINDS: dict[str, type[PureDP] | type[ZCDP]] = {"PureDP": PureDP, "ZCDP": ZCDP}


def stated_budget(text: str) -> PureDP | ZCDP:
    """Return the budget that a text is the display of."""
    found = BUDGET.fullmatch(text)
    if found is not None:
        kind, amount = KINDS[found[1]], found[2]
        budget = kind(float("inf") if amount == "inf" else Fraction(amount))
        if repr(budget) == text:
            return budget
    raise FieldError(f"report: budget {text[:100]!r}: expected such as 'PureDP(epsilon=1/2)'.")


STRUCTURE = "the forest's structure"
PUBLIC = (
    "the domain and the classes",
    STRUCTURE,
    "the strategy",
    "the neighbouring relation and the budget",
)

PUBLIC_NUMBER = "the number of records"
"""Taken for public as well where a fit was given it as `n_records`."""

CHOICE_LAW = "exponential mechanism"
"""How the law of every choice begins."""


@dataclass(frozen=True)
class Measurement:
    """One measurement of a release."""

    measured: str
    """What was measured, and by which strategy family."""
    budget: str
    """What it cost."""
    law: str
    """Law of the noise on one measured answer, in units of the integer answers."""
    sensitivity: float
    """How far one record moves what is measured, in records: the column norm, L1 for Laplace and L2
    for Gaussian noise, times the neighbouring relation's factor."""
    n_answers: int
    """Noisy integers released: answers x classes."""
    column_sum: int
    """What the noise is calibrated to: largest column sum of absolute (Laplace) or squared
    (Gaussian) entries of the integer matrix."""

    @classmethod
    def of(cls, release: Release, measured: str, *, weight: int = 1) -> "Measurement":
        """Return the figures of a release; all of them come from the release itself.

        `weight`: how often what is measured counts each record.
        """
        mechanism = release.mechanism
        return cls(
            measured=measured,
            budget=repr(mechanism.budget),
            law=str(mechanism.law),
            sensitivity=mechanism.sensitivity / weight,
            n_answers=release.answers.size,
            column_sum=mechanism.rounded.column_sum,
        )

    @property
    def is_choice(self) -> bool:
        """Whether it is a choice, which adds no noise to sums."""
        return self.law.startswith(CHOICE_LAW)

    def __str__(self) -> str:
        what = "noisy integers"
        if self.is_choice:
            what = "choice" if self.n_answers == 1 else "choices"
        moved = f"of sensitivity {self.sensitivity:.6g}"
        return f"{self.measured}: {self.n_answers} {what} {moved}, {self.law}"


@dataclass(frozen=True)
class PrivacyReport(RowDisplay):
    """The privacy statement of everything that an estimator released.

    Attributes
    ----------
    claim : Claim
        What is claimed, from all that was released and all that it rests on.
    measurements : tuple of Measurement
        One for each ensemble and batch; their budgets add up to `budget`.
    expected_rms_per_leaf, expected_rms_per_vote : float or None
        Root-mean-square error due to noise, in records (votes) a class, known without data: of a
        leaf value where leaves are released, of a query's votes where votes are.
    public : tuple of str
        What the claim takes for public.
    notes : tuple of str
        What else the claim hangs on.
    planned : str
        The budget of which a part is spent, where batches are still to come.
    """

    claim: Claim
    measurements: tuple[Measurement, ...]
    expected_rms_per_leaf: float | None = None
    expected_rms_per_vote: float | None = None
    public: tuple[str, ...] = PUBLIC
    notes: tuple[str, ...] = field(default=())
    planned: str = ""

    @property
    def statement(self) -> str:  # type: ignore[override]
        """The claim in one sentence; it says so when nothing is protected."""
        return self.claim.statement

    @property
    def is_private(self) -> bool:
        """Whether a claim of privacy is made."""
        return self.claim.is_private

    @property
    def budget(self) -> str:
        """What was spent, by this and by all that it rests on."""
        spent = self.claim.budget
        said = "nothing" if spent is None else repr(spent)
        return f"{said} of {self.planned}" if self.planned and spent is not None else said

    @property
    def neighboring(self) -> str:
        """The neighbouring relation under which the claim holds."""
        return self.claim.neighboring

    @property
    def noise(self) -> str:
        """The worst noise that was drawn."""
        return self.claim.noise

    @property
    def delta(self) -> float:
        """The δ that the claim is stated for; 0 for none."""
        return self.claim.delta

    @property
    def provenance(self) -> Provenance:
        """What the claim rests on."""
        return self.claim.provenance

    @property
    def law(self) -> str:
        """Laws of the noise, each named once."""
        return "; ".join(dict.fromkeys(one.law for one in self.measurements))

    @property
    def sensitivity(self) -> float:
        """Largest sensitivity of a measurement."""
        return max((one.sensitivity for one in self.measurements), default=0.0)

    @property
    def n_answers(self) -> int:
        """Noisy integers released in all."""
        return sum(one.n_answers for one in self.measurements)

    @property
    def measured(self) -> str:
        """What was measured, each thing named once."""
        return "; ".join(dict.fromkeys(one.measured for one in self.measurements))

    def with_note(self, note: str) -> "PrivacyReport":
        """Return the report with one more note."""
        return replace(self, notes=(*self.notes, note))

    def with_public_number(self) -> "PrivacyReport":
        """Return the report of a fit that was given the number of records as public.

        The number stands after the first entry, the domain.
        """
        if PUBLIC_NUMBER in self.public:
            return self
        return replace(self, public=(*self.public[:1], PUBLIC_NUMBER, *self.public[1:]))

    def to_dict(self) -> JsonObject:
        """Return the report as plain values, ready for JSON."""
        return {
            "statement": self.statement,
            "budget": self.budget,
            "delta": self.delta,
            "neighboring": self.neighboring,
            "noise": self.noise,
            "is_private": self.is_private,
            "provenance": provenance_to_dict(self.provenance),
            "law": self.law,
            "sensitivity": self.sensitivity,
            "n_answers": self.n_answers,
            "measured": self.measured,
            "measurements": [vars(one) for one in self.measurements],
            "expected_rms_per_leaf": self.expected_rms_per_leaf,
            "expected_rms_per_vote": self.expected_rms_per_vote,
            "public": list(self.public),
            "notes": list(self.notes),
        }

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What the report says, a line each."""
        rows = [
            ("budget spent", self.budget),
            ("neighbours", self.neighboring),
            ("noise", self.noise),
            *(("measured", _group_text(group)) for group in group_alike(self.measurements)),
        ]
        for what, error in (
            ("leaf value", self.expected_rms_per_leaf),
            ("vote", self.expected_rms_per_vote),
        ):
            if error is not None:
                rows.append(("expected error", f"{error:.4g} records rms per {what} and class"))
        rows.append(("taken for public", "; ".join(self.public)))
        rows.extend(("note", note) for note in self.notes)
        return rows


def group_alike(measurements: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return measurements in groups that differ in the numbers of their names only."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for one in measurements:
        words = re.sub(r"\d+", "#", one.measured)
        groups.setdefault((words, one.budget, f"{one.sensitivity:.6g}", one.law), []).append(one)
    return list(groups.values())


def range_of_names(group: Sequence[Measurement]) -> str:
    """Return the first and the last name of a group of `alike`."""
    first, last = group[0].measured, group[-1].measured
    return first if first == last else f"{first} … {last}"


def _group_text(group: Sequence[Measurement]) -> str:
    whole = replace(
        group[0], measured=range_of_names(group), n_answers=sum(one.n_answers for one in group)
    )
    return str(whole) + (f", in {len(group)} measurements" if len(group) > 1 else "")
