"""Whether the ledger and the evaluation on a page are of the model that it is about.

Nothing that is shown beside a model says by itself that it is of it: a ledger that paid for nothing
looks like one that has much left, and another model's accuracy like this one's. What tells is the
SHA-256 of the model's file, in a charge and in an evaluation.
"""

from collections.abc import Hashable, Sequence

from mrf_matrix.base.fields import FieldError, JsonObject, line_of_text
from mrf_matrix.mechanisms import ZCDP, PrivacyLedger, PureDP
from mrf_matrix.mechanisms.ledger.charge import Charge

NO_CHARGE = (
    "The ledger on this page has no charge for this model: what it says is spent and left does not "
    "count the model. Ask for the ledger that was charged when the model was fitted."
)
NAMELESS_EVALUATION = (
    "It names no model: that it is of this one is the word of whoever kept it. `mrf-matrix "
    "evaluate` writes the SHA-256 of the model's file."
)

Budget = PureDP | ZCDP


def ledger_warnings(
    ledger: PrivacyLedger, model_hash: str | None, spent: Budget
) -> tuple[str, ...]:
    """Return what whoever signs must know where a ledger may not have paid for a model.

    `model_hash`: SHA-256 of the model's file, None where it is from no file; `spent`: what the
    model states that it spent.
    """
    charges = ledger.charges
    own = charges_of(charges, model_hash)
    if own:
        return () if _may_have_paid(own, spent) else (_too_little(own, spent),)
    nameless = [one for one in charges if not one.model]
    if not _may_have_paid(nameless, spent):
        return (NO_CHARGE,)
    if model_hash is None:  # no charge can name it
        return ()
    return (
        f"No charge of the ledger on this page names this model's file. {_numbers(nameless)} no "
        "file at all: whether this model was paid for there is the word of whoever fitted it. "
        "`mrf-matrix fit --ledger` names it; so does PrivacyLedger.describe(number, model=...).",
    )


def charges_of(charges: Sequence[Charge], model_hash: str | None) -> list[Charge]:
    """Return the charges that name a model's file."""
    return [one for one in charges if model_hash and one.model.lower() == model_hash.lower()]


def _may_have_paid(charges: Sequence[Charge], spent: Budget) -> bool:
    """Tell whether charges for private releases may add up to a budget.

    Charges of ε make a claim of ρ too, by ε²/2 each; charges of ρ make none of pure ε.
    """
    if spent.is_infinite:
        return bool(charges)
    budgets = [one.budget for one in charges if one.is_private]
    if isinstance(spent, PureDP):
        return sum(one.exact for one in budgets if isinstance(one, PureDP)) >= spent.exact
    amounts = (one.exact**2 / 2 if isinstance(one, PureDP) else one.exact for one in budgets)
    return sum(amounts) >= spent.exact


def _too_little(own: Sequence[Charge], spent: Budget) -> str:
    paid = ", ".join(repr(one.budget) for one in own)
    return (
        f"The ledger on this page was charged {paid} for this model, which states that it spent "
        f"{spent!r}: the ledger counts less than was spent."
    )


def _numbers(charges: Sequence[Charge]) -> str:
    listed = ", ".join(str(one.number) for one in charges[:20])
    return f"Charge {listed} names" if len(charges) == 1 else f"Charges {listed} name"


def evaluation_words(
    record: JsonObject, model_hash: str | None, classes: Sequence[Hashable]
) -> str:
    """Return how an evaluation is known to be a model's, or that it is not.

    `record`: what `mrf-matrix evaluate --output` wrote; `classes`: the model's.

    Raises FieldError if it is another model's.
    """
    if record.get("classes") != list(classes):
        raise FieldError(
            "evaluation: its classes are not those of this model, so it is another model's. "
            "Expected an evaluation of this very model, by `mrf-matrix evaluate`."
        )
    if record.get("model") is None:
        return NAMELESS_EVALUATION
    named = line_of_text(record["model"], "evaluation: model")
    if model_hash is None:
        return f"It is of the model file with SHA-256 {named}; this page is of no file."
    if named.lower() != model_hash.lower():
        raise FieldError(
            f"evaluation: it is of another model, whose file has SHA-256 {named[:100]}; that of "
            f"this model has {model_hash}. Expected an evaluation of this very file, by "
            f"`mrf-matrix evaluate`."
        )
    return "It is of this model's file, by its SHA-256."
