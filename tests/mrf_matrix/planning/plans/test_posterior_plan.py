"""Plans and searches of posterior forests: what their classifier measures, known without data."""

import json

import numpy as np
import pytest

from mrf_matrix import Domain, load_dataset
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.estimators import PosteriorForestClassifier, from_design
from mrf_matrix.mechanisms import count_cells, measure
from mrf_matrix.planning import ExpectedLoss, TargetPrior, plan, tune
from mrf_matrix.planning.plans.block_part import tables_of
from mrf_matrix.planning.search.expected_accuracy import (
    MOST_RECORDS,
    ImaginedData,
    posterior_probabilities,
)

DATA = load_dataset("monks_1")
SIZES = [3, 2, 4, 2]
FEW = {"kind": ["matrix"], "max_depth": [1, 2], "n_trees": [4], "strategy": ["identity"]}


def a_plan(domain=None, **changes):
    given = {"epsilon": 1, "n_records": 400, "random_state": 0} | changes
    return plan(domain or Domain.from_sizes(SIZES, n_classes=3), "tables", **given)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [{"epsilon": 0.5}, {"epsilon": None, "rho": 0.2}])
@pytest.mark.parametrize("design", [{}, {"n_blocks": 2}, {"blocks": [[0, 3], [1]]}])
def test_the_classifier_measures_what_was_planned(neighboring, budget, design):
    settings = {"n_records": 400, "neighboring": neighboring, "random_state": 3} | budget | design
    made = plan(DATA.domain, "tables", **settings)
    model = PosteriorForestClassifier(DATA.domain, **settings).fit(DATA.X, DATA.y)
    assert model.forest_ == made.forest
    assert model.release_.variance == made.parts[0].mechanism.law.variance
    assert model.privacy_report_.expected_rms_per_leaf == pytest.approx(made.rms_per_leaf)
    if "rho" not in budget:
        assert made.noise_scale == pytest.approx(made.sensitivity / budget["epsilon"])


@pytest.mark.parametrize("changes", [{}, {"epsilon": None, "rho": 0.1}, {"n_blocks": 4}])
def test_expected_errors_are_those_of_simulated_releases(changes):
    made = a_plan(n_classes=3, **changes)
    part, runs = made.parts[0], 1000
    codes = np.random.default_rng(1).integers(0, SIZES, size=(50, 4)).astype(np.int32)
    leaves = made.forest.apply(codes)
    truth = np.bincount(leaves.ravel(), minlength=made.forest.n_leaves)
    columns = count_cells(codes, np.zeros(50, int), made.domain.sizes, 3)
    rng, squares = np.random.default_rng(0), np.zeros(len(made.row_variances))
    for _ in range(runs):
        release = measure(part.mechanism, columns, noise="research", random_state=rng)
        tables, totals = tables_of(part, release)
        values = np.concatenate([*(table.values for table in tables), totals.values])
        values[:, 0] -= truth
        squares += (values**2).sum(axis=1)
    found = squares / (3 * runs)
    assert found[:-1].mean() == pytest.approx(made.row_variances[:-1].mean(), rel=0.03)
    assert found[-1] == pytest.approx(made.row_variances[-1], rel=0.12)  # one draw a class and run
    assert made.total == pytest.approx(3 * made.row_variances.sum())


def test_flips_of_leaves_follow_the_noise_of_their_own_row():
    made = a_plan()
    last = made.forest.n_leaves - 1
    law, scale = made.parts[0].mechanism.law, made.parts[0].row_factors
    rng = np.random.default_rng(0)
    for row in (0, last):
        noise = law.research((2, 40_000), rng) / scale[row]
        flipped = (noise[0] - noise[1] > 10).mean() + 0.5 * (noise[0] - noise[1] == 10).mean()
        assert made.flip_probabilities(10, rows=[row])[0] == pytest.approx(flipped, abs=0.01)


def test_what_has_no_expected_error_is_refused_by_name():
    made = a_plan()
    for figure in ("rms_per_vote", "vote_variances", "lower_bound", "certified_ratio"):
        with pytest.raises(ValueError, match="tables"):
            getattr(made, figure)
    with pytest.raises(ValueError, match="tables"):
        made.flip_probabilities(share=0.1, of="vote")
    assert "rms_per_vote" not in made.to_dict(bound=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_trees": 3}, "n_trees with kind='tables'"),
        ({"max_features": 2, "strategy": "identity"}, "max_features, strategy"),
        ({"budget_shares": [1]}, "budget_shares"),
        ({"voting": "hard"}, "voting='hard'"),
        ({"allocation": "per_tree"}, "allocation"),
        ({"n_blocks": 0}, "n_blocks=0"),
        ({"n_blocks": 2, "blocks": [[0]]}, "both given"),
        ({"blocks": []}, "blocks=\\[\\]"),
        ({"blocks": "01"}, "blocks='01'"),
        ({"blocks": 3}, "blocks=3"),
        ({"blocks": [[0], []]}, "blocks holds"),
        ({"budget_shares": np.array([0.5, 0.5])}, "budget_shares"),
        ({"n_records": 0}, "n_records=0"),
        ({"blocks": ["01"]}, "blocks holds '01'"),
        ({"blocks": [[0], [0, 1]]}, "one block only"),
        ({"blocks": [[9]]}, "attribute 9"),
    ],
)
def test_parameters_that_do_not_fit_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        a_plan(**given)


def test_other_modes_take_no_blocks():
    with pytest.raises(ValueError, match="n_blocks=2"):
        plan(DATA.domain, "matrix", epsilon=1, n_blocks=2)


# -- searches -------------------------------------------------------------------------------------


def test_imagined_labels_are_those_of_the_classifier():
    domain = Domain.from_sizes(SIZES, n_classes=3)
    made = a_plan(domain, epsilon=float("inf"))
    imagined = ImaginedData(domain, 3, 400, TargetPrior(), n_targets=3, n_queries=20)
    found = posterior_probabilities(made, imagined, np.random.default_rng(0))
    for law, shares in enumerate(found):
        mine = imagined.owner == law
        model = PosteriorForestClassifier(
            domain, epsilon=float("inf"), blocks=made.parts[0].blocks
        ).fit(imagined.codes[mine], imagined.labels[mine])
        asked = imagined.queries.reshape(3, 20, -1)[law]
        np.testing.assert_allclose(shares, model.predict_proba(asked), atol=1e-9)


def test_the_accuracy_objective_counts_right_labels():
    made, goal = a_plan(epsilon=20, n_records=4000), ExpectedLoss(n_targets=8)
    drowned = goal(a_plan(epsilon=0.001, n_records=4000))
    assert goal(made) < 0.35 < drowned < 1
    assert goal(made) == goal(made)


def test_a_search_tries_forests_of_both_kinds():
    domain = Domain.from_sizes([2, 2, 3], n_classes=2)
    options = {"epsilon": 1, "n_records": 300, "objective_options": {"n_targets": 3}}
    spaces = [FEW, {"kind": ["tables"], "n_blocks": ["auto", 3]}]
    found = tune(domain, space=spaces, **options)
    assert len(found.trials) == 4
    columns = list(found.to_frame().columns)
    assert {"kind", "max_depth", "n_blocks"} < set(columns[: columns.index("value")])
    first = tune(domain, space=[{"kind": ["tables"], "n_blocks": [3]}], **options)
    assert first.kind == "tables"
    assert np.isnan(first.best.rms_per_vote)
    assert json.loads(json.dumps(first.to_dict()))["best_params"]["n_blocks"] == 3
    model = from_design(first, noise="research", noise_state=0)
    assert isinstance(model, PosteriorForestClassifier)
    assert (model.n_blocks, model.n_records, model.epsilon) == (3, 300, 1)
    front = found.pareto("value", "rms_per_vote")
    assert front
    assert {found.kind_of(trial) for trial in front} == {"matrix"}
    for trial in found.trials:
        made = from_design(found, trial)
        assert type(made).__name__ == KINDS[found.kind_of(trial)].estimator
        assert (
            trial.design.items()
            >= {name: getattr(made, name) for name in trial.design if name != "kind"}.items()
        )
    codes = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    model.fit(codes, codes[:, 0])
    seed = {"random_state": found.request["random_state"]}
    assert model.forest_ == plan(domain, "tables", epsilon=1, n_blocks=3, **seed).forest


def test_the_default_search_tries_forests_of_both_kinds():
    domain = Domain.from_sizes([2, 3], n_classes=2)
    found = tune(
        domain, epsilon=1, n_records=200, objective_options={"n_targets": 2}, time_limit=0.05
    )
    modes = [trial.design["kind"] for trial in found.trials]
    assert modes.count("tables") == 1
    assert modes.count("matrix") > 1


@pytest.mark.parametrize("objective", ["flip", "error", "bound"])
def test_objectives_of_votes_refuse_what_multiplies(objective):
    found = tune(DATA.domain, epsilon=1, n_records=300, objective=objective, kind="tables")
    assert found.trials[0].value == float("inf")
    assert "votes by product" in found.trials[0].note


def test_a_plan_hands_its_blocks_to_the_classifier():
    made = a_plan(DATA.domain, n_blocks=2, neighboring="replace_one")
    model = from_design(made)
    assert model.blocks == [list(block) for block in made.parts[0].blocks]
    assert (model.neighboring, model.epsilon) == ("replace_one", 1)


def test_blocks_by_name_are_those_by_position():
    names = DATA.domain.names
    by_name = a_plan(DATA.domain, blocks=[[names[2], names[0]], [names[1]]])
    assert by_name.parts[0].blocks == ((0, 2), (1,))
    assert by_name.forest == a_plan(DATA.domain, blocks=[[0, 2], [1]]).forest


# Made-up records ---------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([3, 5, 2], n_classes=3)


@pytest.mark.parametrize("n_records", [300, 100_000])
def test_every_law_has_the_public_number_of_records(n_records):
    imagined = ImaginedData(DOMAIN, 3, n_records, TargetPrior(), n_targets=6, n_queries=10)
    assert len(imagined.codes) <= MOST_RECORDS
    counts = imagined.counts(imagined.codes, DOMAIN.sizes).counts
    totals = counts.sum(axis=0).reshape(6, 3).sum(axis=1)
    assert totals == pytest.approx(n_records, rel=0.01)
    assert (imagined.labels >= 0).all()
    assert (imagined.labels < 3).all()


def test_queries_get_the_votes_of_their_own_law():
    imagined = ImaginedData(DOMAIN, 3, 10, TargetPrior(), n_targets=2, n_queries=3)
    answers = np.arange(2 * 3 * 2 * 3, dtype=float).reshape(6, 6)
    own = imagined.own_columns(answers)
    assert own.shape == (2, 3, 3)
    assert (own[0] == answers[:3, :3]).all()
    assert (own[1] == answers[3:, 3:]).all()


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_the_loss_vanishes_where_a_code_tells_the_class(kind):
    class Told:
        """Records whose first code is their class."""

        label_noise = 0.0

        def draw(self, domain, n_classes, generator):
            """Return itself, a law."""
            return self

        def records(self, count, generator):
            """Draw even records."""
            codes = np.stack([generator.integers(0, n, count) for n in DOMAIN.sizes], axis=1)
            return codes.astype(np.int32), codes[:, 0].astype(np.int64)

    loss = ExpectedLoss(priors=(Told(),), n_targets=3, n_queries=40)
    made = plan(DOMAIN, kind, epsilon=float("inf"), n_trees=12, max_depth=1, n_records=600,
                strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(made) < 0.05
    noisy = plan(DOMAIN, kind, epsilon=0.001, n_trees=12, max_depth=1, n_records=600,
                 strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(noisy) > 0.4
