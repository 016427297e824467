"""A claim of privacy in plain words: sentences, each with the condition under which it is true."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

from mrf_matrix.mechanisms import ZCDP
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reports.page import Section
from mrf_matrix.reports.privacy_report import PUBLIC_NUMBER

STATED_DELTA = 1e-6  # the δ at which zCDP is put into words where the claim has none

ONE_RECORD = "One record is one row of the table. What is protected is "
WHETHER = "whether a row was in it at all, and so everything that the row said"


@dataclass(frozen=True)
class Facts:
    """What the sentences of a page follow from."""

    claim: Claim
    public: tuple[str, ...] = ()
    follows_choices: bool = False  # whether something was chosen from the records, privately
    from_file: bool = False

    @property
    def has_public_base(self) -> bool:
        """Whether nothing that it rests on was read off records, or is of unknown origin."""
        return not self.claim.provenance.read_off | self.claim.provenance.unknown

    @property
    def rests_on_others(self) -> bool:
        """Whether it adds up charges of several fits."""
        return len(self.claim.spendings) > 1


def guarantee_section(facts: Facts) -> Section:
    """Return what is claimed, for somebody who knows no mathematics."""
    return Section("What is guaranteed", tuple(guaranteed_words(facts)))


def guaranteed_words(facts: Facts) -> Iterator[str]:
    claim = facts.claim
    if not claim.is_private:
        yield "No privacy is claimed of this release."
        yield "Nothing that is said below makes it private: do not publish it."
        return
    yield odds(claim)
    if claim.neighboring == "replace_one":
        yield f"{ONE_RECORD}what the row said; how many rows there were is not."
    elif PUBLIC_NUMBER in facts.public:
        yield (
            f"{ONE_RECORD}{WHETHER}. How many rows there were was stated as public before the fit, "
            f"and is not protected."
        )
    else:
        yield f"{ONE_RECORD}{WHETHER}, and how many rows there were."
    times = "r²" if isinstance(claim.budget, ZCDP) else "r"
    yield (
        f"A person who gave r rows is protected at {times} times the budget: count rows per person "
        "before you sign."
    )
    if facts.rests_on_others:
        yield (
            f"All that it rests on is counted: {len(claim.spendings)} charges, for "
            f"{', '.join(one.what for one in claim.spendings)}."
        )


def public_words(facts: Facts) -> Iterator[str]:
    """Say what the claim takes for public, and what of it is not."""
    known = facts.claim.provenance
    if facts.public and facts.has_public_base:
        yield f"Taken for public: {'; '.join(facts.public)}."
    if declared := known.declared - known.read_off - known.unknown:
        names = ", ".join(sorted(declared))
        yield f"Declared public, and vouched for by whoever declared it: {names}."
    if known.read_off:
        names = ", ".join(sorted(known.read_off))
        yield f"Read off the records, so that it is not public at all: {names}."
    if known.unknown:
        yield f"Nobody stated where it came from: {', '.join(sorted(known.unknown))}."
    if facts.follows_choices and facts.claim.is_private:
        yield (
            "What was chosen from the records, privately and within the claim, is not public "
            "knowledge, and may be published: it was paid for."
        )
    if facts.rests_on_others and facts.claim.is_private:
        yield "What other fits released before is paid for within the claim."


def unpromised_words(facts: Facts) -> Iterator[str]:
    if facts.from_file:
        yield (
            "This page was made from a model file. That noise was drawn as stated is the word of "
            "whoever wrote the file; all that can be checked agrees."
        )
    yield (
        "Other releases from the same records: their budgets add to this one. A ledger adds them "
        "up."
    )
    yield (
        "What a model says of people in general, which any sample shows, with or without a given "
        "person in it."
    )
    yield "Side channels while it was fitted: time, memory, and whether an error occurred."
    if not facts.claim.provenance.read_off:
        yield (
            "Whoever declared the domain public vouches for it: edges or categories that were "
            "copied from the records leak, whoever typed them."
        )
    yield (
        "The claim is about privacy. How often the model is right is another question: see the "
        "calibration where it was paid for, and ask for one where it is missing."
    )


def odds(claim: Claim) -> str:
    """Return by how much a release may change what somebody believes of one record.

    Where neighbours differ by one record more or less, two things that it may have said are two
    steps apart: twice ε, or four times ρ.
    """
    budget = claim.budget
    assert budget is not None
    is_zcdp = isinstance(budget, ZCDP)
    delta = (claim.delta or STATED_DELTA) if is_zcdp else 0.0
    there, said = "whether the remaining record was there at all", "which of two things it said"
    asked = {there: budget, said: budget * (4 if is_zcdp else 2)}
    if claim.neighboring == "replace_one":
        asked = {"which of two things the remaining record said": budget}
    bounds = (
        f"{question}, {_bound_text(float(one.claimed_epsilon(delta)), delta)}"
        for question, one in asked.items()
    )
    return (
        "Take somebody who sees all that was released, knows every other record, and computes for "
        f"as long as they like. Asked {'. Asked '.join(bounds)}."
    )


def _bound_text(epsilon: float, delta: float) -> str:
    """Return how well a question is answered whose two answers are (ε, δ) apart.

    Of answers that are as likely beforehand, (e^ε + δ)/(1 + e^ε) are right at most. That odds
    change by more than e^ε has another probability than δ, and it may be larger.
    """
    right = 100 * (1 + delta * exp(-epsilon)) / (1 + exp(-epsilon))
    known = f"ε = {epsilon:.4g}" + (f" at δ = {delta:g}" if delta else "")
    guess = f"with both as likely before, they are right with a chance of at most {right:.4g} %"
    if delta:
        return f"{guess} ({known})"
    change = f"their odds change by a factor of at most {_factor_text(epsilon)}"
    return f"{change} (e to the power {known}); {guess}"


def _factor_text(epsilon: float) -> str:
    return f"{exp(epsilon):.3g}" if epsilon < 700 else "more than 1e300"
