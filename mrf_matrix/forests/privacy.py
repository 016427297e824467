"""Whether a forest's structure may carry a private release."""

from mrf_matrix.forests.forest import Forest


class LearnedStructureError(ValueError):
    """A structure learned from records was given where only a public or paid-for one may be."""


def check_structure_is_public(forest: Forest, purpose: str, *, allow_spent: bool = False) -> None:
    """Refuse a forest whose structure was learned from records.

    Parameters
    ----------
    forest : Forest
    purpose : str
        What the structure was to be used for, for the message.
    allow_spent : bool, default=False
        Accept a structure that was grown privately and says what that cost (`budget_spent`): a
        release may go on with the rest of the budget. Planning without data may not.

    Raises
    ------
    LearnedStructureError
        If the forest is data-dependent and not accepted.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
    >>> forest = RandomTrees(1, 1).grow(Domain.from_sizes([2]))
    >>> check_structure_is_public(forest, "a plan without data")
    """
    if not forest.data_dependent:
        return
    if forest.budget_spent is not None:
        if allow_spent:
            return
        raise LearnedStructureError(
            f"forest ({forest.source or 'learned'}) was grown from records at the cost of "
            f"{forest.budget_spent}: {purpose} must not depend on records. Plan with a structure "
            f"grown without data, such as RandomTrees or PureTrees."
        )
    raise LearnedStructureError(
        f"forest ({forest.source or 'learned'}) was learned from records without a budget: its "
        f"splits reveal them, so {purpose} over it would not be private, whatever the noise. Use "
        f"a structure grown without data (RandomTrees, PureTrees), one that was grown privately "
        f"and carries budget_spent, or epsilon=float('inf') for non-private work; if it was "
        f"learned from public records only, say so with "
        f"dataclasses.replace(forest, data_dependent=False)."
    )
