"""Which kind of forest is the best to expect, decided without data."""

from mrf_matrix.planning.private.balance import even_records
from mrf_matrix.planning.private.choosing import planned_for, private_plan
from mrf_matrix.planning.private.private_plan import Forecast, PrivatePlan
from mrf_matrix.planning.private.screening import Screening

__all__ = [
    "Forecast",
    "PrivatePlan",
    "Screening",
    "even_records",
    "planned_for",
    "private_plan",
]
