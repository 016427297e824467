"""A pooled forest as a file: the file of its tree and the file of its tables within it."""

from collections.abc import Mapping

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import FieldError, JsonObject, number_of, part_of, versioned_of
from mrf_matrix.estimators.pooled.pooled_forest import PooledForestClassifier
from mrf_matrix.estimators.pooled.report import pooled_report
from mrf_matrix.estimators.released.released_labels import ReleasedLabelTreeClassifier
from mrf_matrix.estimators.released.released_pooled import ReleasedPooledForestClassifier
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.label_file import label_content, label_of
from mrf_matrix.files.models.posterior_file import posterior_content, posterior_of
from mrf_matrix.files.models.report import LARGEST_DELTA, report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.models.residual_file import (
    RESIDUAL_FORMAT,
    ResidualModel,
    residual_content,
    residual_of,
)
from mrf_matrix.files.release_record import check_covered
from mrf_matrix.mechanisms.budgets.budget import total_budget
from mrf_matrix.planning.private.pooled_plan import shared

POOLED_FORMAT = "mrf_matrix.pooled_model"
POOLED_VERSION = 3
KEYS = {"format", "schema_version", "delta", "tree", "tables", "report"}

ReleasedTables = ReleasedPosteriorForestClassifier | ReleasedResidualForestClassifier
PooledModel = PooledForestClassifier | ReleasedPooledForestClassifier


def pooled_content(model: PooledModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a fitted pooled forest."""
    tree, of_tree = label_content(model.tree_)
    beside = model.tables_
    if isinstance(beside, ResidualModel):
        tables, of_tables = residual_content(beside)
    else:
        tables, of_tables = posterior_content(beside)
    released = isinstance(model, ReleasedPooledForestClassifier)
    content: JsonObject = {
        "format": POOLED_FORMAT,
        "schema_version": POOLED_VERSION,
        "delta": model.delta if released else model.plan_.delta,
        "tree": tree,
        "tables": tables,
        "report": model.privacy_report_.to_dict(),
    }
    return content, _under("tree", of_tree) | _under("tables", of_tables)


def pooled_of(container: Container) -> ReleasedPooledForestClassifier:
    """Return the pooled forest of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_of(container.data, "model.json", POOLED_FORMAT, POOLED_VERSION, KEYS)
    delta = number_of(data["delta"], "delta", most=LARGEST_DELTA)
    if any(not name.startswith(("tree/", "tables/")) for name in container.names):
        raise FieldError("it has members that are no arrays of its parts.")
    tree = label_of(container.under(part_of(data, "tree"), "tree/"))
    tables = _tables(container, part_of(data, "tables"), tree)
    if type(tree.spent) is not type(tables.spent):
        raise FieldError("tables: expected a budget of the tree's kind.")
    if tables.domain != tree.domain:
        raise FieldError("domain: expected the same of the tree and of the tables.")
    of_tree, of_tables = ((one.report.neighboring, one.report.noise) for one in (tree, tables))
    if of_tree != of_tables:
        raise FieldError("tables: expected the neighbours and the noise of the tree.")
    parts = tree.spent, tables.spent
    budget = total_budget(parts)
    if shared(budget, tree.plan.n_records, tree.plan.neighboring, tree.plan.n_classes) != parts:
        raise FieldError("tables: expected the budget that the tree leaves.")
    expected = pooled_report(tree.report, tables.report, delta)
    claimed = report_of(data["report"])
    check_covered(claimed.claim, budget, *of_tree)
    report = check_follows(claimed, expected)
    return ReleasedPooledForestClassifier(tree, tables, delta, tree.domain, report)


def _tables(
    container: Container, data: JsonObject, tree: ReleasedLabelTreeClassifier
) -> ReleasedTables:
    """Return the tables that are beside a tree, of whichever kind."""
    part = container.under(data, "tables/")
    if data.get("format") != RESIDUAL_FORMAT:
        return posterior_of(part)
    tables = residual_of(part)
    if tables.plan.n_records != tree.plan.n_records:
        raise FieldError("tables: expected the number of records of the tree.")
    if tables.plan.even_records is not None:
        raise FieldError("tables: expected no choice of how rare a class is before them.")
    return tables


def _under(part: str, arrays: Mapping[str, Values]) -> dict[str, Values]:
    """Return arrays by names that say which part they are of."""
    return {f"{part}/{name}": array for name, array in arrays.items()}
