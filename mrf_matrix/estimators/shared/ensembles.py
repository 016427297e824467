"""What a report says of the ensembles of a plan."""

from collections.abc import Sequence

from mrf_matrix.forests.sources.ensembles import Ensemble


def structure_notes(ensembles: Sequence[Ensemble]) -> tuple[str, ...]:
    """Return what structures cost beside the release, and where trees are less deep than asked."""
    spent = [one.forest.budget_spent for one in ensembles if one.forest.budget_spent is not None]
    depths = {one.depth_note: None for one in ensembles if one.depth_note is not None}
    return (*(f"the forest's structure cost {cost} more, before this" for cost in spent), *depths)
