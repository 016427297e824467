"""Numbers of cells as text: exact while a reader can take them in, their magnitude beyond."""

from math import floor, log10

EXACT_BELOW = 10**12


def readable_count(n: int) -> str:
    """Write a count, ``1,728`` or ``about 9.7e398``.

    Python refuses to print integers of more than 4300 digits, and nobody reads 40.

    Examples
    --------
    >>> readable_count(1728), readable_count(4**30), readable_count(10**5000)
    ('1,728', 'about 1.2e18', 'about 1.0e5000')
    """
    if n < EXACT_BELOW:
        return f"{n:,}"
    exponent = floor(log10(n))
    mantissa = round(10 ** (log10(n) - exponent), 1)
    if mantissa >= 10:
        mantissa, exponent = 1.0, exponent + 1
    return f"about {mantissa:.1f}e{exponent}"
