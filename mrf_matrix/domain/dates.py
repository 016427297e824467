"""Dates as days since 1970: edges that are dates, and columns of dates, however they are held."""

from datetime import date, datetime, timedelta

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Values

EPOCH = datetime(1970, 1, 1)
DAY = timedelta(days=1)


def day_of(value: object) -> float:
    """Return the days since 1970 of a date, a time or an ISO text; NaN of what is missing.

    Raises ValueError if it is no date.

    >>> day_of("1970-01-03"), day_of("1970-01-03T12:00")
    (2.0, 2.5)
    """
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) / DAY
    if isinstance(value, date):
        return float(value.toordinal() - EPOCH.toordinal())
    if isinstance(value, np.datetime64):
        return float(days_of_times(np.array([value]))[0])
    raise ValueError("no date")


def day_or_none(value: object) -> float | None:
    """Return a value's days since 1970, None if it is no date."""
    try:
        return day_of(value)
    except ValueError:
        return None


def days_of_times(values: Values) -> Array:
    """Return the days since 1970 of an array of datetime64; NaN of NaT."""
    return np.asarray((values - np.datetime64(0, "D")) / np.timedelta64(1, "D"), dtype=np.float64)


def dates_of_days(days: ArrayLike) -> Values:
    """Return the dates on which days lie; NaT of NaN."""
    floored = np.floor(np.asarray(days, dtype=np.float64))
    known = np.isfinite(floored)
    return np.where(
        known, np.where(known, floored, 0).astype("datetime64[D]"), np.datetime64("NaT", "D")
    )
