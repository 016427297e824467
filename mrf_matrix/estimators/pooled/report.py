"""The privacy report of a `PooledForestClassifier`: a choice, and what was measured beside it."""

from dataclasses import replace

from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reports.privacy_report import STRUCTURE, PrivacyReport

OF_TABLES = "the structure of the tables"
"""Public beside a tree that was chosen, where there is no other forest."""


def pooled_report(tree: PrivacyReport, tables: PrivacyReport, delta: float) -> PrivacyReport:
    """Return the report of both parts; `delta`: what the claim is stated for, 0 for none."""
    made = (*tree.measurements, *tables.measurements)
    known = tree.provenance | tables.provenance
    of_tables = (OF_TABLES if one == STRUCTURE else one for one in tables.public)
    return replace(
        tables,
        claim=Claim(known, tuple(one.law for one in made), delta),
        measurements=made,
        public=tuple(dict.fromkeys((*tree.public, *of_tables))),
        notes=tuple(dict.fromkeys((*tree.notes, *tables.notes))),
    )
