"""Forests that several parties grow together (not private), and a private way to grow them."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.federated.systems.growing import adjusted_leaves as adjusted_leaves
    from mrf_matrix.federated.systems.growing import deal_chunks as deal_chunks
    from mrf_matrix.federated.systems.growing import grow_collaboratively as grow_collaboratively
    from mrf_matrix.federated.systems.growing import grow_separately as grow_separately
    from mrf_matrix.federated.systems.growing import most_chunks as most_chunks
    from mrf_matrix.federated.systems.private_growing import grow_privately as grow_privately

__getattr__, __dir__, __all__ = front_door(__name__)
