"""The privacy report of a `PooledForestClassifier`: a choice, and what was measured beside it."""

from dataclasses import replace

from mrf_matrix.domain import Domain
from mrf_matrix.domain.errors import name_some
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reports.privacy_report import STRUCTURE, PrivacyReport

OF_TABLES = "the structure of the tables"
"""Public beside a tree that was chosen, where there is no other forest."""


def fewer_codes(given: Domain, seen: Domain) -> tuple[str, ...]:
    """Return the names of the attributes that have fewer codes in tables than in the tree."""
    pairs = zip(given.names, given.sizes, seen.sizes, strict=True)
    return tuple(name for name, before, after in pairs if after < before)


def pooled_report(
    tree: PrivacyReport,
    tables: PrivacyReport,
    delta: float,
    fewer: tuple[str, ...] = (),
) -> PrivacyReport:
    """Return the report of both parts.

    `delta`: the δ that the claim is stated for; 0 for none; `fewer`:
    attributes that have fewer codes in tables, see `fewer_codes`.
    """
    made = (*tree.measurements, *tables.measurements)
    known = tree.provenance | tables.provenance
    notes = [*tree.notes, *tables.notes]
    if fewer:
        notes.append(
            f"tables count neighbouring codes of {name_some(fewer)} as one; the tree does not"
        )
    of_tables = (OF_TABLES if one == STRUCTURE else one for one in tables.public)
    return replace(
        tables,
        claim=Claim(known, tuple(one.law for one in made), delta),
        measurements=made,
        public=tuple(dict.fromkeys((*tree.public, *of_tables))),
        notes=tuple(dict.fromkeys(notes)),
    )
