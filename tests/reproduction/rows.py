"""The 64 things that the five papers define, claim, tabulate or draw."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One of the 64: the tests that show it, and why it is in part only, where it is.

    Rows of tables and figures are shown by items, which name their rows themselves.
    """

    number: int
    paper: str
    what: str
    tests: tuple[str, ...] = ()
    reason: str = ""


def shown_by(number: int, paper: str, what: str, *tests: str) -> Row:
    """Return a row that tests of the library show."""
    return Row(number, paper, what, tuple(f"tests/mrf_matrix/{name}.py" for name in tests))


ROWS = (
    shown_by(
        1,
        "003",
        "domain, data matrix, Examples 1-3, Figure 1",
        "domain/test_domain",
        "mechanisms/counts/test_counts",
    ),
    shown_by(2, "003", "Definition 1, neighbours", "mechanisms/budgets/test_neighboring"),
    shown_by(3, "003", "Definition 2, matrix mechanism", "mechanisms/measurement/test_measure"),
    shown_by(4, "003", "Definition 3, error; Theorems 4, 6", "error/test_expected_error"),
    shown_by(5, "003", "OPT_p"),
    shown_by(6, "003", "BuildTree", "forests/sources/test_random_trees"),
    shown_by(
        7,
        "003",
        "T, Q, QTᵀ, QTᵀT; weight and hard voting",
        "compilation/test_path_matrix",
        "compilation/test_workloads",
        "voting/test_voting",
    ),
    shown_by(
        8,
        "003",
        "Algorithm 1, Theorem 5",
        "estimators/training/test_matrix_forest",
        "mechanisms/test_privacy",
    ),
    shown_by(
        9,
        "003",
        "Algorithm 2, Theorem 7",
        "estimators/prediction/test_batch_prediction",
        "mechanisms/test_privacy",
    ),
    shown_by(
        10,
        "003",
        "optimised subsample-and-aggregate",
        "estimators/prediction/test_subsample_aggregate",
    ),
    shown_by(
        11,
        "003",
        "existing subsample-and-aggregate",
        "estimators/prediction/test_subsample_aggregate",
    ),
    shown_by(12, "003", "Algorithm 3, q ensembles", "estimators/test_ensembles"),
    shown_by(
        13, "003", "baseline: Laplace on every tree", "estimators/training/test_matrix_forest"
    ),
    shown_by(14, "003", "baseline: disjoint data", "estimators/training/test_matrix_forest"),
    shown_by(15, "003", "Extra-Trees, M-RF without privacy", "study/test_study"),
    shown_by(
        16, "003", "tuning without data", "planning/plans/test_plan", "planning/search/test_tune"
    ),
    shown_by(17, "003", "D never materialised, implicit matrices", "compilation/test_path_matrix"),
    shown_by(18, "003", "Figures 3a, 3b, 4"),
    shown_by(19, "003", "Figure 2, six data sets"),
    shown_by(20, "003", "Table 1, seconds"),
    shown_by(21, "003", "Adult (123 binary columns) and Heart", "datasets/test_heart_and_adult"),
    shown_by(
        22,
        "000",
        "partition, Gini and entropy, Algorithm 1, B₁ B₂ B₃",
        "forests/growth/test_grow",
        "forests/growth/test_split_rules",
    ),
    shown_by(23, "000", "labels of leaves M(ψ)", "estimators/grown/test_grown_forests"),
    shown_by(24, "000", "majority vote, random ties", "estimators/grown/test_grown_forests"),
    shown_by(
        25,
        "000",
        "Definition 2, Lemmas 5-7, Theorem 2 (private)",
        "forests/growth/private/test_privacy",
    ),
    shown_by(
        26, "000", "private structure, leaves by matrix mechanism", "estimators/test_two_stages"
    ),
    shown_by(27, "000", "Breiman, +SE, +M", "estimators/grown/test_grown_forests"),
    shown_by(28, "000", "Denil14, BRF", "estimators/grown/test_grown_forests"),
    shown_by(29, "000", "CompRF-C, -I", "forests/learned/test_comparison_trees"),
    shown_by(30, "000", "SmoothRF", "forests/learned/test_smooth_sensitivity"),
    shown_by(31, "000", "Theorem 1, consistency"),
    shown_by(32, "000", "Lemmas 3, 4, (C.3): P₁, P₂, shrinking sides", "forests/theory/test_cells"),
    shown_by(33, "001", "B = 0 random, B = ∞ greedy", "forests/growth/test_split_rules"),
    shown_by(34, "000", "Table 1: 24 data sets"),
    shown_by(35, "000", "Table 2: eight forests"),
    shown_by(36, "000", "Table 3: oblique and rotation forests, HobRaF"),
    shown_by(37, "000", "Tables 4, 5: tuned"),
    shown_by(38, "000", "Figures 3, 4: segmentation"),
    shown_by(39, "000", "Figure 5: ε × t"),
    shown_by(40, "000", "Figure 6: B₁ × B₂"),
    shown_by(41, "001", "Table 3: a tree under B₃, B₁, B₂"),
    shown_by(42, "001", "Figure 7: accuracies of single trees"),
    shown_by(43, "000", "Figure 1: selection probabilities"),
    Row(
        44,
        "000",
        "complexity O(t D n log n)",
        ("tests/benchmarks/test_multinomial_speed.py",),
    ),
    shown_by(
        45,
        "002",
        "pure forest, uniform and midpoint",
        "forests/sources/test_pure",
        "estimators/grown/test_pure_forest",
    ),
    shown_by(
        46, "002", "simplified Breiman (Algorithm 1)", "forests/learned/test_simplified_breiman"
    ),
    shown_by(47, "002", "Theorems 1-4", "forests/theory/test_finite_sample"),
    shown_by(48, "002", "Lemmas 1, 2", "forests/theory/test_heights"),
    shown_by(49, "002", "rates, best k", "forests/theory/test_finite_sample"),
    shown_by(50, "002", "Lemma 3, tail of the diameter", "forests/theory/test_cells"),
    shown_by(51, "002", "Lemma 4, error of one cell", "forests/theory/test_cells"),
    shown_by(52, "002", "Biau's c* that Lemma 2 improves", "forests/theory/test_heights"),
    shown_by(53, "002", "tie rule of the vote"),
    shown_by(54, "004", "α-chunk split", "federated/systems/test_chunks"),
    shown_by(55, "004", "grow", "federated/systems/test_growing"),
    shown_by(56, "004", "adjust", "federated/systems/test_growing"),
    shown_by(57, "004", "averaged class probabilities", "estimators/grown/test_federated_forest"),
    shown_by(58, "004", "NCFF", "estimators/grown/test_federated_forest"),
    shown_by(59, "004", "centralised forest", "estimators/grown/test_federated_forest"),
    shown_by(60, "004", "table"),
    shown_by(
        61,
        "004",
        "future work: differential privacy, minimum of records a leaf",
        "federated/systems/test_private_growing",
    ),
    shown_by(
        62,
        "beyond",
        "federated matrix mechanism by shares of noise",
        "mechanisms/test_shared_noise",
        "federated/test_runner",
    ),
    shown_by(
        63,
        "beyond",
        "streams, cluster, counts that add",
        "streams/test_count_stream",
        "streams/test_cluster",
    ),
    Row(64, "beyond", "this report", ("tests/reproduction/test_reproduction.py",)),
)
