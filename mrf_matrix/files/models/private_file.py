"""A private forest as a file: the choices beside it, and the forest's own file within it.

Budgets of the choices and of the forest add up to the whole. Which attributes were chosen is the
writer's word, as every release is; the forest's blocks must lie within them.
"""

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    line_of_text,
    list_of,
    number_of,
    object_of,
    part_of,
    versioned_of,
    whole_numbers,
)
from mrf_matrix.base.provenance import Chosen
from mrf_matrix.estimators.private.private_forest import PrivateForestClassifier
from mrf_matrix.estimators.private.report import private_report
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.released.released_private import (
    ReleasedForest,
    ReleasedPrivateForestClassifier,
)
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.label_file import LABEL_FORMAT, LabelModel, label_content, label_of
from mrf_matrix.files.models.pooled_file import (
    POOLED_FORMAT,
    PooledModel,
    pooled_content,
    pooled_of,
)
from mrf_matrix.files.models.posterior_file import (
    POSTERIOR_FORMAT,
    PosteriorModel,
    posterior_content,
    posterior_of,
)
from mrf_matrix.files.models.report import LARGEST_DELTA, report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.models.residual_file import residual_content, residual_of
from mrf_matrix.files.release_record import check_covered
from mrf_matrix.mechanisms.budgets.budget import budget_of, total_budget
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import Kind, ResidualStep

PRIVATE_FORMAT = "mrf_matrix.private_model"
PRIVATE_VERSION = 4
KEYS = {"format", "schema_version", "delta", "choices", "screened", "forest", "report"}
CHOICE_KEYS = {"measured", "budget"}
USUAL_KIND = "screening"
BEFORE_A_FOREST: tuple[Kind, ...] = ("choice", "screening")
MOST_CHOICES = 1000

PrivateModel = PrivateForestClassifier | ReleasedPrivateForestClassifier


def private_content(model: PrivateModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a fitted private forest."""
    forest, choices = model.forest_, _choices_made(model)
    if isinstance(forest, PosteriorModel):
        content, arrays = posterior_content(forest)
    elif isinstance(forest, LabelModel):
        content, arrays = label_content(forest)
    elif isinstance(forest, PooledModel):
        content, arrays = pooled_content(forest)
    else:
        content, arrays = residual_content(forest)
    delta = model.delta if isinstance(model, ReleasedPrivateForestClassifier) else model.plan_.delta
    content = {
        "format": PRIVATE_FORMAT,
        "schema_version": PRIVATE_VERSION,
        "delta": delta,
        "choices": [
            {"measured": step.measured, "budget": {step.budget.parameter: str(step.budget.amount)}}
            | ({} if step.kind == USUAL_KIND else {"kind": step.kind})
            for step in choices
        ],
        "screened": None if model.screened_ is None else list(model.screened_),
        "forest": content,
        "report": model.privacy_report_.to_dict(),
    }
    return content, arrays


def _choices_made(model: PrivateModel) -> tuple[ResidualStep, ...]:
    if isinstance(model, ReleasedPrivateForestClassifier):
        return model.choices
    return model.plan_.choices


def private_of(container: Container) -> ReleasedPrivateForestClassifier:
    """Return the private forest of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_of(container.data, "model.json", PRIVATE_FORMAT, PRIVATE_VERSION, KEYS)
    delta = number_of(data["delta"], "delta", most=LARGEST_DELTA)
    inside = part_of(data, "forest")
    forest = _forest(container.under(inside), inside.get("format"))
    choices = _choices(data["choices"], forest)
    claimed, screened = report_of(data["report"]), _screened(data["screened"], forest, choices)
    if screened is not None:
        screened = Chosen(screened, claimed.provenance)
    of_forest = forest.privacy_report_
    whole = _whole(forest, choices)
    check_covered(claimed.claim, whole, of_forest.neighboring, of_forest.noise)
    expected = private_report(of_forest, choices, claimed.provenance, delta, ())
    report = check_follows(claimed, expected)
    return ReleasedPrivateForestClassifier(forest, choices, screened, delta, forest.domain, report)


def _forest(inner: Container, kind: object) -> ReleasedForest:
    if kind == POSTERIOR_FORMAT:
        return posterior_of(inner)
    if kind == POOLED_FORMAT:
        return pooled_of(inner)
    return label_of(inner) if kind == LABEL_FORMAT else residual_of(inner)


def _choices(data: object, forest: ReleasedForest) -> tuple[ResidualStep, ...]:
    found = []
    for one in list_of(data, "choices", MOST_CHOICES):
        described = object_of(one, "choices", CHOICE_KEYS, ("kind",))
        kind = one_word("choices: kind", described.get("kind", USUAL_KIND), BEFORE_A_FOREST)
        words = line_of_text(described["measured"], "choices: measured", 200)
        budget = budget_of(described["budget"])
        if type(budget) is not type(forest.spent):
            raise FieldError("choices: expected a budget of the forest's kind.")
        found.append(ResidualStep(kind, words, budget, forest.privacy_report_.neighboring))
    return tuple(found)


def _screened(
    data: object, forest: ReleasedForest, choices: tuple[ResidualStep, ...]
) -> tuple[int, ...] | None:
    """Return the attributes that were kept; the forest's must be among them."""
    if data is None:
        return None
    kept = whole_numbers(data, "screened", most=forest.domain.n_attributes - 1)
    if not 0 < len(set(kept)) == len(kept) <= len(choices):
        raise FieldError("screened: expected distinct attributes, at most one a choice.")
    if not isinstance(forest, ReleasedPosteriorForestClassifier) or not {
        i for block in forest.measurement.blocks for i in block
    } <= set(kept):
        raise FieldError("screened: the forest measured other attributes.")
    return kept


def _whole(forest: ReleasedForest, choices: tuple[ResidualStep, ...]) -> Budget:
    """Return what the forest and the choices cost together."""
    return total_budget((forest.spent, *(step.budget for step in choices)))
