"""The 64 things that the five papers define, claim, tabulate or draw."""

from dataclasses import dataclass

LISTED = """\
1 | 003 | domain, data matrix, Examples 1-3, Figure 1 | \
domain/test_domain mechanisms/counts/test_counts
2 | 003 | Definition 1, neighbours | mechanisms/budgets/test_budget
3 | 003 | Definition 2, matrix mechanism | mechanisms/measurement/test_measure
4 | 003 | Definition 3, error; Theorems 4, 6 | error/test_expected_error
5 | 003 | OPT_p |
6 | 003 | BuildTree | forests/sources/test_random_trees
7 | 003 | T, Q, QTᵀ, QTᵀT; weight and hard voting | \
compilation/test_matrices voting/test_voting
8 | 003 | Algorithm 1, Theorem 5 | estimators/training/test_matrix_forest mechanisms/test_privacy
9 | 003 | Algorithm 2, Theorem 7 | \
estimators/prediction/test_batch_prediction mechanisms/test_privacy
10 | 003 | optimised subsample-and-aggregate | estimators/test_stages_and_coins
11 | 003 | existing subsample-and-aggregate | estimators/test_stages_and_coins
12 | 003 | Algorithm 3, q ensembles | estimators/training/test_matrix_forest
13 | 003 | baseline: Laplace on every tree | estimators/training/test_matrix_forest
14 | 003 | baseline: disjoint data | estimators/training/test_matrix_forest
15 | 003 | Extra-Trees, M-RF without privacy | study/test_study
16 | 003 | tuning without data | planning/plans/test_plan planning/search/test_tune
17 | 003 | D never materialised, implicit matrices | compilation/test_matrices
18 | 003 | Figures 3a, 3b, 4 |
19 | 003 | Figure 2, six data sets |
20 | 003 | Table 1, seconds |
21 | 003 | Adult (123 binary columns) and Heart | tests/reproduction/loaders/test_heart_and_adult
22 | 000 | partition, Gini and entropy, Algorithm 1, B₁ B₂ B₃ | \
forests/growth/test_grow forests/test_internals
23 | 000 | labels of leaves M(ψ) | estimators/grown/test_grown_forests
24 | 000 | majority vote, random ties | estimators/grown/test_grown_forests
25 | 000 | Definition 2, Lemmas 5-7, Theorem 2 (private) | forests/growth/test_privacy
26 | 000 | private structure, leaves by matrix mechanism | estimators/test_stages_and_coins
27 | 000 | Breiman, +SE, +M | tests/reproduction/rivals/test_grown
28 | 000 | Denil14, BRF | estimators/grown/test_grown_forests
29 | 000 | CompRF-C, -I | tests/reproduction/rivals/test_comparison_trees
30 | 000 | SmoothRF | tests/reproduction/rivals/test_smooth_sensitivity
31 | 000 | Theorem 1, consistency |
32 | 000 | Lemmas 3, 4, (C.3): P₁, P₂, shrinking sides | forests/theory/test_finite_sample
33 | 001 | B = 0 random, B = ∞ greedy | forests/test_internals
34 | 000 | Table 1: 24 data sets |
35 | 000 | Table 2: eight forests |
36 | 000 | Table 3: oblique and rotation forests, HobRaF |
37 | 000 | Tables 4, 5: tuned |
38 | 000 | Figures 3, 4: segmentation |
39 | 000 | Figure 5: ε × t |
40 | 000 | Figure 6: B₁ × B₂ |
41 | 001 | Table 3: a tree under B₃, B₁, B₂ |
42 | 001 | Figure 7: accuracies of single trees |
43 | 000 | Figure 1: selection probabilities |
44 | 000 | complexity O(t D n log n) | tests/benchmarks/test_multinomial_speed
45 | 002 | pure forest, uniform and midpoint | \
forests/growth/test_grow estimators/grown/test_grown_forests
46 | 002 | simplified Breiman (Algorithm 1) | forests/growth/test_grow
47 | 002 | Theorems 1-4 | forests/theory/test_finite_sample
48 | 002 | Lemmas 1, 2 | forests/theory/test_finite_sample
49 | 002 | rates, best k | forests/theory/test_finite_sample
50 | 002 | Lemma 3, tail of the diameter | forests/theory/test_finite_sample
51 | 002 | Lemma 4, error of one cell | forests/theory/test_finite_sample
52 | 002 | Biau's c* that Lemma 2 improves | forests/theory/test_finite_sample
53 | 002 | tie rule of the vote |
54 | 004 | α-chunk split | federated/systems/test_growing
55 | 004 | grow | federated/systems/test_growing
56 | 004 | adjust | federated/systems/test_growing
57 | 004 | averaged class probabilities | estimators/grown/test_federated_forest
58 | 004 | NCFF | estimators/grown/test_federated_forest
59 | 004 | centralised forest | estimators/grown/test_federated_forest
60 | 004 | table |
61 | 004 | future work: differential privacy, minimum of records a leaf | \
federated/systems/test_growing
62 | beyond | federated matrix mechanism by shares of noise | \
mechanisms/noise/test_noise federated/test_runner
63 | beyond | streams, cluster, counts that add | streams/test_count_stream streams/test_cluster
64 | beyond | this report | tests/reproduction/test_reproduction
"""
"""Number, paper, what it is, and the tests that show it, by their place in `tests/mrf_matrix`."""


@dataclass(frozen=True)
class Row:
    """One of the 64. Rows of tables and figures are shown by items, which name their rows."""

    number: int
    paper: str
    what: str
    tests: tuple[str, ...]


def listed(line: str) -> Row:
    """Return the row of a line."""
    number, paper, what, tests = (word.strip() for word in line.split("|"))
    places = (
        one if one.startswith("tests/") else f"tests/mrf_matrix/{one}" for one in tests.split()
    )
    return Row(int(number), paper, what, tuple(f"{place}.py" for place in places))


ROWS = tuple(map(listed, LISTED.splitlines()))
