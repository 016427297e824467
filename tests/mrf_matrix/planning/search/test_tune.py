"""Searches without data: objectives, bounds, resuming, and the classifier at the end."""

import inspect
import json
from importlib.util import find_spec

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier
from mrf_matrix.estimators import from_design
from mrf_matrix.forests import pure_forest_bound
from mrf_matrix.planning import ExpectedLoss, TargetPrior, Tuning, plan, tune
from strategies.operators import Dense

DOMAIN = Domain.from_sizes([3, 4, 2, 3], n_classes=2)
SPACE = {
    "max_depth": [1, 2],
    "n_trees": [4, 8],
    "splits": ["multiway"],
    "strategy": ["identity"],
    "voting": ["hard", "weight"],
}
ASK = {"epsilon": 1, "n_records": 400, "space": SPACE, "time_limit": 0.2}


@pytest.fixture(scope="module")
def found():
    return tune(DOMAIN, **ASK)


def test_every_design_is_tried_and_ranked(found):
    assert len(found.trials) == 8
    values = [trial.value for trial in found.trials]
    assert values == sorted(values)
    assert 0 < found.best.value < 1


def test_searches_take_no_data():
    private = {"X", "y", "data", "dataset", "records", "labels", "counts", "frame"}
    for call in (tune, Tuning, ExpectedLoss, TargetPrior.draw):
        assert private.isdisjoint(inspect.signature(call).parameters)


@pytest.mark.slow
def test_processes_do_not_change_the_result(found):
    parallel = tune(DOMAIN, **ASK, n_jobs=2)
    assert [t.design for t in parallel.trials] == [t.design for t in found.trials]
    assert [t.value for t in parallel.trials] == [t.value for t in found.trials]


def test_a_search_resumes_from_its_file(tmp_path, found):
    file = tmp_path / "trials.json"
    first = tune(DOMAIN, **{**ASK, "space": {**SPACE, "max_depth": [1]}}, resume=file)
    stored = json.loads(file.read_text())["trials"]
    assert len(stored) == len(first.trials) == 4
    seen = []
    again = tune(DOMAIN, **ASK, resume=file, progress=lambda *step: seen.append(step[1:]))
    assert seen[0] == (4, 8)
    assert [t.value for t in again.trials] == [t.value for t in found.trials]
    with pytest.raises(ValueError, match="another search"):
        tune(DOMAIN, **{**ASK, "epsilon": 2}, resume=file)
    file.write_text("{}")
    with pytest.raises(ValueError, match="no file of trials"):
        tune(DOMAIN, **ASK, resume=file)


def test_a_file_that_holds_no_objects_is_refused_by_name(tmp_path):
    """Of each part another JSON value; what `tune` wrote itself is read."""
    file = tmp_path / "trials.json"
    ask = {**ASK, "space": {**SPACE, "max_depth": [1], "n_trees": [4], "voting": ["hard"]}}
    tune(DOMAIN, **ask, resume=file)
    written = json.loads(file.read_text())
    seen = []
    tune(DOMAIN, **ask, resume=file, progress=lambda *step: seen.append(step[1:]))
    assert seen[0] == (1, 1)  # the control: it resumes
    values = [None, 3, "text", [["text", 3]], []]
    damaged = [*values, *({**written, "request": one} for one in values)]
    damaged += [{**written, "trials": one} for one in (None, 3, "text", {"0": 3}, ["text"], [3])]
    for record in damaged:
        file.write_text(json.dumps(record))
        with pytest.raises(ValueError, match=r"trials\.json.* no file of trials .*: expected one"):
            tune(DOMAIN, **ask, resume=file)


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        ("flip", {"share": 0.1}),
        ("flip", {"margin": 5.0}),
        ("error", {"resolution": 5}),
        ("bound", {"lipschitz": 0.5}),
        (lambda plan: plan.rms_per_leaf, {}),
    ],
)
def test_objectives(objective, options):
    tuned = tune(DOMAIN, **ASK, objective=objective, objective_options=options)
    assert np.isfinite(tuned.best.value)
    if objective == "error":
        assert {trial.design["max_depth"] for trial in tuned.trials if np.isinf(trial.value)} == {1}


def test_the_bound_adds_bias_and_noise():
    quiet = plan(DOMAIN, epsilon=float("inf"), n_trees=4, max_depth=1, n_records=400,
                 strategy="identity", random_state=0)  # fmt: skip
    from mrf_matrix.planning import LipschitzBound

    leaves = round(quiet.forest.n_leaves / 4)
    bias = pure_forest_bound(400, leaves, 4, splits="midpoint", form="sharp")
    assert LipschitzBound()(quiet) == pytest.approx(bias)


def test_expected_loss_falls_with_the_budget():
    made = plan(DOMAIN, epsilon=1, n_trees=8, max_depth=2, n_records=400, strategy="identity",
                random_state=0)  # fmt: skip
    loss = ExpectedLoss()
    values = [loss(made.at(epsilon=epsilon)) for epsilon in (0.01, 0.3, 10)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_the_estimator_is_ready_to_fit(kind):
    voting = {} if kind == "batch" else {"voting": ["weight"]}
    space = {"max_depth": [1, 2], "n_trees": [4], "strategy": ["identity"], **voting}
    tuned = tune(DOMAIN, epsilon=2, n_records=60, kind=kind, space=space)
    model = from_design(tuned, noise="research", noise_state=0)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 60) for size in DOMAIN.sizes], axis=1)
    model.fit(codes, rng.integers(0, 2, 60))
    assert model.max_depth == tuned.best.design["max_depth"]
    assert model.predict(codes).shape == (60,)


def test_a_plan_becomes_its_estimator():
    made = plan(DOMAIN, epsilon=1, n_trees=6, max_depth=1, n_ensembles=2, max_features=2,
                budget_shares=[1, 2], strategy="identity", random_state=3)  # fmt: skip
    model = from_design(made, noise="research", noise_state=0)
    assert isinstance(model, MatrixForestClassifier)
    codes = np.zeros((4, 4), dtype=int)
    model.fit(codes, [0, 1, 0, 1])
    report = model.privacy_report_
    assert report.expected_rms_per_leaf == pytest.approx(made.rms_per_leaf)
    with pytest.raises(TypeError, match="Tuning"):
        from_design("best")


def test_tables_and_front(found):
    rows = found.rows()
    assert {"max_depth", "value", "rms_per_vote"} <= set(rows[0])
    frame = found.to_frame()
    assert len(frame) == 8
    front = found.pareto()
    assert front[0].value == found.best.value
    sizes = [trial.measurements for trial in front]
    assert sizes == sorted(sizes, reverse=True)
    json.dumps(found.to_dict())


def test_designs_that_cannot_be_are_refused_with_a_note():
    tuned = tune(DOMAIN, **{**ASK, "space": {**SPACE, "max_depth": [1, -1]}})
    refused = [trial for trial in tuned.trials if trial.note]
    assert len(refused) == 4
    assert "max_depth" in refused[0].note
    tight = tune(DOMAIN, **ASK, max_bytes=3000)
    assert any("cap" in t.note or "max_bytes" in t.note for t in tight.trials)
    with pytest.raises(ValueError, match="no design was feasible"):
        _ = tune(DOMAIN, **{**ASK, "space": {"max_depth": [-1]}}).best


SEARCH = "mrf_matrix.planning.search.design_search"


class Ticks:
    """A clock that goes on by one second whenever it is read."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        self.time += 1
        return self.time


def tick_between_designs(monkeypatch):
    """Let the clock go on whenever it is read, but not within a design, however long that takes."""
    monkeypatch.setattr(f"{SEARCH}.monotonic", Ticks())
    monkeypatch.setattr(f"{SEARCH}.DesignTrials._look", lambda *told: None)


def test_the_search_stops_by_the_clock_and_goes_on(tmp_path, monkeypatch, found):
    tick_between_designs(monkeypatch)
    file = tmp_path / "trials.json"
    part = tune(DOMAIN, **ASK, resume=file, max_seconds=8)
    tried = [trial for trial in part.trials if not trial.stopped]
    assert 0 < len(tried) < len(part.trials) == len(found.trials)
    assert [t.key for t in part.stopped] == [t.key for t in part.trials[len(tried) :]]
    assert all(np.isinf(t.value) and "max_seconds=8" in t.note for t in part.stopped)
    assert {row["stopped"] for row in part.rows()} == {False, True}
    assert f"{len(part.stopped)} not tried" in repr(part)
    assert len(json.loads(file.read_text())["trials"]) == len(tried)
    values = {trial.key: trial.value for trial in found.trials}
    assert all(trial.value == values[trial.key] for trial in tried)
    rest = tune(DOMAIN, **ASK, resume=file, max_seconds=10_000)
    assert not rest.stopped
    assert [t.value for t in rest.trials] == [t.value for t in found.trials]


def test_votings_of_one_plan_are_designs_too(monkeypatch):
    """The limit may pass between two designs that share a plan."""
    tick_between_designs(monkeypatch)
    space = {**SPACE, "max_depth": [1], "n_trees": [4]}
    part = tune(DOMAIN, **{**ASK, "space": space}, max_seconds=5)
    assert [trial.stopped for trial in part.trials] == [False, True]


def test_no_time_at_all(monkeypatch):
    tick_between_designs(monkeypatch)
    none = tune(DOMAIN, **ASK, max_seconds=0.5)
    assert len(none.stopped) == 8
    assert "0 of 8" in repr(none)
    with pytest.raises(ValueError, match="not tried"):
        _ = none.best


def test_slow_releases_are_refused():
    refused = tune(DOMAIN, **ASK, max_release_seconds=1e-9).trials
    assert all("max_release_seconds" in trial.note and not trial.stopped for trial in refused)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "beauty"}, "objective"),
        ({"space": {"height": [1]}}, "height"),
        ({"space": {"max_depth": []}}, "list"),
        ({"n_records": None}, "n_records"),
        ({"epsilon": 1, "rho": 1}, "exactly one"),
        ({"time_limit": None}, "time_limit"),
        ({"n_forests": 0}, "n_forests"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"max_seconds": "soon"}, "max_seconds"),
        ({"max_release_seconds": -1}, "max_release_seconds"),
    ],
)
def test_impossible_searches_say_what_to_change(arguments, message):
    with pytest.raises(ValueError, match=message):
        _ = tune(DOMAIN, **{**ASK, **arguments}).best


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_priors_are_public_and_seeded(share):
    prior = TargetPrior(label_noise=share)
    draws = [prior.draw(DOMAIN, 2, np.random.default_rng(5)) for _ in range(2)]
    codes = np.indices(DOMAIN.sizes).reshape(4, -1).T
    assert (draws[0](codes) == draws[1](codes)).all()
    assert set(draws[0](codes)) <= {0, 1}
    with pytest.raises(ValueError, match="monotone"):
        TargetPrior(monotone=2)


def test_every_strategy_of_a_space_is_tried():
    seen = []

    def counted(made):
        seen.append(made.strategy.matrix.to_dense())
        return float(made.total)

    cells = np.eye(16)
    given = [Dense(cells), Dense(cells + np.triu(np.ones((16, 16)), 1))]
    found = tune(
        Domain.from_sizes([4, 4], n_classes=2), epsilon=1, objective=counted,
        space={"strategy": given, "max_depth": [1], "n_trees": [2]},
    )  # fmt: skip
    assert len(found.trials) == 2
    assert not np.array_equal(*seen)
    assert {id(trial.design["strategy"]) for trial in found.trials} == set(map(id, given))


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample", "tables"])
def test_a_voting_that_a_kind_has_not_refuses_its_design_only(kind):
    right = {"batch": "weight", "tables": "posterior"}.get(kind, "hard")
    space = {"kind": [kind], "voting": ["bogus", right]}
    if kind != "tables":
        space |= {"max_depth": [1], "n_trees": [3], "strategy": ["identity"]}
    found = tune(DOMAIN, epsilon=1, n_records=100, space=space, objective_options={"n_targets": 2})
    good, bad = found.trials
    assert good.design["voting"] == right
    assert np.isfinite(good.value)
    assert bad.value == float("inf")
    assert "voting='bogus'" in bad.note


def test_a_resumed_search_gives_designs_as_they_were_asked_for(tmp_path):
    space = {"max_depth": list(np.arange(1, 3)), "n_trees": [3], "strategy": [np.eye(12)]}
    given = {"epsilon": 1, "objective": "error", "space": space, "resume": tmp_path / "trials.json"}
    domain = Domain.from_sizes([3, 4], n_classes=2)
    first, again = tune(domain, **given), tune(domain, **given)
    for found in (first, again):
        design = found.best.design
        assert type(design["max_depth"]) is int
        assert design["strategy"] is space["strategy"][0]
    model = from_design(again, noise="research", noise_state=0)
    codes = np.random.default_rng(0).integers(0, [3, 4], size=(30, 2))
    assert model.fit(codes, codes[:, 0] % 2).forest_.n_trees == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"max_bytes": 10**6},
        {"max_release_seconds": 5},
        {"queries": np.arange(1200).reshape(600, 2) % [3, 4] * (np.arange(600) != 250)[:, None]},
        {"objective": lambda made: made.total},
    ],
)
def test_another_search_does_not_resume(tmp_path, changes):
    queries = np.arange(1200).reshape(600, 2) % [3, 4]
    space = {"max_depth": [1], "n_trees": [3], "strategy": ["identity"]}
    given = {"epsilon": 1, "objective": "error", "space": space, "queries": queries}
    given["resume"] = tmp_path / "trials.json"
    domain = Domain.from_sizes([3, 4], n_classes=2)
    tune(domain, **given)
    with pytest.raises(ValueError, match="of another search"):
        tune(domain, **(given | changes))


def test_a_space_of_several_modes_gives_classifiers_their_own_parameters():
    space = {"kind": ["matrix", "tables"], "max_depth": [4], "n_trees": [128]}
    given = {"epsilon": 1, "n_records": 100, "objective_options": {"n_targets": 2}}
    found = tune(DOMAIN, space={**space, "strategy": ["auto"]}, time_limit=0.05, **given)
    for trial in found.trials:
        from_design(found, trial)
    both = tune(DOMAIN, space={"kind": ["tables"], "n_blocks": ["auto", 2]}, **given)
    for native in filter(find_spec, ("pandas", "polars", "pyarrow")):
        assert len(both.to_frame(native)) == 2
    json.loads(json.dumps(found.to_dict(), allow_nan=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"random_state": None}, "random_state=None"),
        ({"random_state": -1}, "random_state=-1"),
        ({"max_bytes": -5}, "max_bytes=-5"),
        ({"objective_options": {"shares": 0.1}}, "objective_options holds shares"),
        ({"objective": len, "objective_options": {"share": 0.1}}, "objective_options"),
        ({"space": "wide"}, "space='wide'"),
    ],
)
def test_what_is_wrong_is_named_at_the_call(arguments, message):
    with pytest.raises(ValueError, match=message):
        tune(DOMAIN, **({"epsilon": 1, "n_records": 10} | arguments))


SEARCHED = {
    "epsilon": 1,
    "n_records": 400,
    "objective_options": {"n_targets": 6, "n_queries": 32},
    "space": [
        {"kind": ["tables"]},
        {"max_depth": [1, 3], "n_trees": [4], "voting": ["hard", "weight"]},
    ],
    "kind": "auto",
    "time_limit": 0.02,
}


def test_what_noise_alone_cannot_save_is_ruled_out_without_a_search(tmp_path):
    file = tmp_path / "trials.json"
    few = tune(DOMAIN, **SEARCHED, resume=file)
    every = tune(DOMAIN, **SEARCHED, search_all=True)
    values = {trial.key: trial for trial in every.trials}
    assert few.best.design == every.best.design
    assert all(trial.searched for trial in every.trials)
    ruled_out = [trial for trial in few.trials if not trial.searched]
    assert ruled_out
    least = min(trial.value for trial in few.trials) + 0.02
    for trial in few.trials:
        if trial.searched:
            assert trial.value == values[trial.key].value
        else:
            assert "ruled out" in trial.note
            assert min(trial.floor, values[trial.key].value + 0.02) > least
    again = tune(DOMAIN, **SEARCHED, resume=file)
    assert [(t.key, t.value, t.note) for t in again.trials] == [
        (t.key, t.value, t.note) for t in few.trials
    ]


def test_a_search_that_is_stopped_before_strategies_are_sought_goes_on(tmp_path, monkeypatch):
    file = tmp_path / "trials.json"
    whole = tune(DOMAIN, **SEARCHED)
    tick_between_designs(monkeypatch)
    part = tune(DOMAIN, **SEARCHED, resume=file, max_seconds=10)
    assert any(trial.stopped or "time was over" in trial.note for trial in part.trials)
    rest = tune(DOMAIN, **SEARCHED, resume=file, max_seconds=10_000)
    assert [(t.key, t.value) for t in rest.trials] == [(t.key, t.value) for t in whole.trials]


def test_votes_are_imagined_once_for_designs_that_differ_in_voting():
    made = plan(DOMAIN, epsilon=1, n_records=400, n_trees=4, max_depth=2, strategy="identity")
    goal = ExpectedLoss(n_targets=6, n_queries=32)
    both = [goal(made.voted_by(voting)) for voting in ("hard", "weight", "hard")]
    alone = [
        ExpectedLoss(n_targets=6, n_queries=32)(made.voted_by(voting))
        for voting in ("hard", "weight", "hard")
    ]
    assert both == alone


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_the_loss_vanishes_where_a_code_tells_the_class(kind):
    three = Domain.from_sizes([3, 5, 2], n_classes=3)

    class Told:
        """Records whose first code is their class."""

        label_noise = 0.0

        def draw(self, domain, n_classes, generator):
            """Return itself, a law."""
            return self

        def records(self, count, generator):
            """Draw even records."""
            codes = np.stack([generator.integers(0, n, count) for n in three.sizes], axis=1)
            return codes.astype(np.int32), codes[:, 0].astype(np.int64)

    loss = ExpectedLoss(priors=(Told(),), n_targets=3, n_queries=40)
    made = plan(three, kind, epsilon=float("inf"), n_trees=12, max_depth=1, n_records=600,
                strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(made) < 0.05
    noisy = plan(three, kind, epsilon=0.001, n_trees=12, max_depth=1, n_records=600,
                 strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(noisy) > 0.4
