"""All that a fitted model released, on one page for whoever answers for it, its claim first.

The claim is put into plain words: sentences, each with the condition under which it is true.
"""

import platform
import re
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from json import dumps
from math import exp
from typing import Any

from mrf_matrix.base.fields import JsonObject
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.mechanisms import ZCDP, PrivacyLedger, Release
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reports.attachments import evaluation_section, ledger_section, ledger_warnings
from mrf_matrix.reports.model_sections import (
    Facts,
    agreement_section,
    measured_section,
    shares_section,
    strength_section,
)
from mrf_matrix.reports.page import ReportPage, Section
from mrf_matrix.reports.privacy_report import PUBLIC_NUMBER, PrivacyReport, stated_budget

MOST_ATTRIBUTES = 200
PROGRAMS = ("mrf-matrix", "numpy", "scipy", "opendp")

SCALE = re.compile(r" of scale [0-9.]+(?:e[+-]?[0-9]+)?(?![0-9])")
"""Scales of the released integers, which the page leaves out: its unit is records."""


def model_report(
    model: Any,
    *,
    ledger: PrivacyLedger | None = None,
    evaluation: JsonObject | None = None,
    model_hash: str | None = None,
) -> ReportPage:
    """Return the page of a fitted model: its claim, its costs, and how noisy its figures are.

    Everything on it is public or post-processing of the releases: it costs nothing.

    Parameters
    ----------
    model : fitted classifier of ours
        Or one from a file.
    ledger : PrivacyLedger, optional
        That the model was charged to. Where no charge names the model's file, or those that do are
        of less than the model says it spent, the page warns of it.
    evaluation : dict, optional
        ``PrivateEvaluation.to_dict()``, an evaluation on private test records that was paid for.
    model_hash : str, optional
        SHA-256 of the model's file.

    Raises
    ------
    AttributeError
        If the model is not fitted.
    ValueError
        If the evaluation is none, or another model's: of other classes, or of a file with another
        hash.
    """
    report: PrivacyReport = model.privacy_report_
    domain: Domain = model.domain_
    kind = getattr(model, "released_by", type(model).__name__)
    facts = report_facts(report, from_file=model_hash is not None)
    sections: list[Section | None] = [
        Section("What is guaranteed", tuple(guaranteed_words(facts))),
        shares_section(report, facts),
        measured_section(report, facts),
        None if ledger is None else ledger_section(ledger, model_hash),
        _public_section(facts, domain),
        strength_section(model, domain),
        agreement_section(model, domain),
        None
        if evaluation is None
        else evaluation_section(evaluation, model.classes_.tolist(), model_hash),
        _limits_section(report, facts),
        _identity_section(model, domain, model_hash),
    ]
    return ReportPage(
        title=f"Privacy report: {kind} for {domain.required_target().name!r}",
        statement=SCALE.sub("", report.statement),
        is_private=report.claim.is_private,
        sections=tuple(one for one in sections if one is not None),
        warnings=() if ledger is None else ledger_warnings(ledger, model_hash, report.claim),
    )


def domain_hash(domain: Domain) -> str:
    """Return the SHA-256 of a domain's JSON, keys in order: equal domains have equal ones.

    Examples
    --------
    >>> domain_hash(Domain.from_sizes([2, 3])) == domain_hash(Domain.from_sizes([2, 3]))
    True
    """
    text = dumps(domain.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()


def report_facts(report: PrivacyReport, *, from_file: bool = False) -> Facts:
    measured = [stated_budget(one.budget) for one in report.measurements]
    chosen = any(one.is_choice for one in report.measurements)
    if measured:  # what is a part of a whole follows from its other parts
        chosen = chosen or total_budget(measured) != report.claim.budget
    return Facts(report.claim, report.public, chosen, from_file)


def _public_section(facts: Facts, domain: Domain) -> Section:
    target = domain.required_target()
    listed = [*domain.attributes[:MOST_ATTRIBUTES], target]
    rows = tuple(_attribute_row(one, " (the classes)" * (one is target)) for one in listed)
    more = domain.n_attributes - MOST_ATTRIBUTES
    return Section(
        "What was public",
        (
            *public_words(facts),
            *((f"{more} attributes more are not listed.",) if more > 0 else ()),
        ),
        rows,
        ("attribute", "values", "codes", "other values", "missing"),
    )


def _attribute_row(one: Attribute, remark: str) -> tuple[str, ...]:
    if one.edges is not None:
        first, last = _edge_text(one.edges[0]), _edge_text(one.edges[-1])
        values = f"{len(one.edges) - 1} bins from {first} to {last}"
        strange = "open ends" if one.outside == "open" else "refused"
    else:
        labels = [str(label) for label in one.labels]
        values = ", ".join(labels[:4]) + (", …" if len(labels) > 4 else "")
        strange = "one code more" if one.unknown == "other" else "refused"
    missing = "a code of its own" if one.missing == "category" else "refused"
    return one.name + remark, values, str(one.size), strange, missing


def _edge_text(edge: object) -> str:
    return f"{edge:g}" if isinstance(edge, int | float) else str(edge)


def _limits_section(report: PrivacyReport, facts: Facts) -> Section:
    notes = tuple(getattr(report, "notes", ()))
    return Section(
        "What is not promised",
        tuple(unpromised_words(facts)),
        tuple((f"note {number}", note) for number, note in enumerate(notes, 1)),
    )


def _identity_section(model: Any, domain: Domain, model_hash: str | None) -> Section:
    """Name the programs and the hashes by which domain and model are known again."""
    made = dict.fromkeys(str(one.measured) for one in _releases(model) if one.measured is not None)
    rows = [
        ("kind of model", type(model).__name__),
        *(("measured by", text) for text in made),
        ("page written with", ", ".join(_versions())),
        ("SHA-256 of the domain that was measured", domain_hash(domain)),
        ("SHA-256 of the model file", model_hash or "not from a file"),
    ]
    return Section("Versions and hashes", rows=tuple(rows))


def _versions() -> Iterator[str]:
    for name in PROGRAMS:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} (not installed)"
    yield f"Python {platform.python_version()}"


def _releases(model: Any) -> Iterator[Release]:
    told = getattr(model, "transcript_", None)
    found = (vars(model).get("release_"),) if told is None else told.releases
    yield from (one for one in found if isinstance(one, Release))


STATED_DELTA = 1e-6  # the δ at which zCDP is put into words where the claim has none

ONE_RECORD = "One record is one row of the table. What is protected is "
WHETHER = "whether a row was in it at all, and so everything that the row said"


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
    factor = f"{exp(epsilon):.3g}" if epsilon < 700 else "more than 1e300"
    change = f"their odds change by a factor of at most {factor}"
    return f"{change} (e to the power {known}); {guess}"
