"""The privacy report of a `PooledForestClassifier`: a choice, and what was measured beside it."""

from dataclasses import replace

from mrf_matrix.domain import Domain
from mrf_matrix.domain.errors import name_some
from mrf_matrix.estimators.residual.report import sequence_statement
from mrf_matrix.mechanisms.measurement.release import READ_OFF
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.residual.settings import Budget

A_PART = (
    "a part of a pooled forest: its budget adds to that of the other part, and the report of the "
    "PooledForestClassifier states the sum"
)
"""A note on the reports of the tree and of the tables."""


def fewer_codes(given: Domain, seen: Domain) -> tuple[str, ...]:
    """Return the names of the attributes that have fewer codes in tables than in the tree."""
    pairs = zip(given.names, given.sizes, seen.sizes, strict=True)
    return tuple(name for name, before, after in pairs if after < before)


def pooled_report(
    tree: PrivacyReport,
    tables: PrivacyReport,
    budget: Budget,
    delta: float,
    fewer: tuple[str, ...] = (),
) -> PrivacyReport:
    """Return the report of both parts.

    `budget`: the whole; `delta`: the δ that the claim is stated for; 0 for none; `fewer`:
    attributes that have fewer codes in tables, see `fewer_codes`.
    """
    made = (*tree.measurements, *tables.measurements)
    laws = [one.law for one in made]
    claim = sequence_statement(budget.claim(delta), tree.neighboring, tree.noise, laws)
    notes = [note for note in (*tree.notes, *tables.notes) if note != A_PART]
    if fewer:
        notes.append(
            f"tables count neighbouring codes of {name_some(fewer)} as one; the tree does not"
        )
    both = replace(
        tables,
        statement=claim,
        budget=repr(budget),
        measurements=made,
        public=tuple(dict.fromkeys((*tree.public, *tables.public))),
        notes=tuple(dict.fromkeys(notes)),
        delta=delta,
    )
    return both.without_claim() if READ_OFF in (tree.statement, tables.statement) else both
