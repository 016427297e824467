"""Which kind of forest is the best to expect, decided without data."""

from mrf_matrix.planning.private.choosing import planned_for, private_plan, records_after
from mrf_matrix.planning.private.private_plan import Forecast, PrivatePlan
from mrf_matrix.planning.private.screening import Screening

__all__ = [
    "Forecast",
    "PrivatePlan",
    "Screening",
    "planned_for",
    "private_plan",
    "records_after",
]
