"""Every kind of model, by the word for it."""

from mrf_matrix.kinds.labels import LABELS, POOL
from mrf_matrix.kinds.matrix import MATRIX
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.multinomial import MULTINOMIAL
from mrf_matrix.kinds.naive_bayes import NAIVE_BAYES
from mrf_matrix.kinds.private import PRIVATE
from mrf_matrix.kinds.tables import ADDITIVE, TABLES
from mrf_matrix.kinds.two_stage import TWO_STAGE

ALL = (
    PRIVATE, TABLES, ADDITIVE, LABELS, POOL, NAIVE_BAYES, MATRIX, MULTINOMIAL, TWO_STAGE,
)  # fmt: skip
KINDS: dict[str, Kind] = {one.name: one for one in ALL}
