"""A budget read back from the text of a report."""

import re
from fractions import Fraction

from mrf_matrix.base.fields import FieldError
from mrf_matrix.mechanisms import ZCDP, PureDP

BUDGET = re.compile(r"(PureDP|ZCDP)\((?:epsilon|rho)=([0-9./e+-]+|inf)\)")
KINDS: dict[str, type[PureDP] | type[ZCDP]] = {"PureDP": PureDP, "ZCDP": ZCDP}


def stated_budget(text: str) -> PureDP | ZCDP:
    """Return the budget that a text is the display of.

    Raises FieldError if it is not.
    """
    found = BUDGET.fullmatch(text)
    if found is not None:
        kind, amount = KINDS[found[1]], found[2]
        budget = kind(float("inf") if amount == "inf" else Fraction(amount))
        if repr(budget) == text:
            return budget
    raise FieldError(f"report: budget {text[:100]!r}: expected such as 'PureDP(epsilon=1/2)'.")
