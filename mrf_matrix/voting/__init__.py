"""Leaf values, votes, labels, and the uncertainty that noise leaves."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.voting.evidence import vote_shares as vote_shares
    from mrf_matrix.voting.voting import NoisyLeaves as NoisyLeaves
    from mrf_matrix.voting.voting import forest_votes as forest_votes
    from mrf_matrix.voting.voting import leaf_evidence as leaf_evidence
    from mrf_matrix.voting.voting import leaf_votes as leaf_votes

__getattr__, __dir__, __all__ = front_door(__name__)
