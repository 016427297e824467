"""Which kind of forest is the best to expect, decided without data."""

from mrf_matrix.planning.private.private_plan import Forecast, PrivatePlan, private_plan
from mrf_matrix.planning.private.screening import Screening

__all__ = [
    "Forecast",
    "PrivatePlan",
    "Screening",
    "private_plan",
]
