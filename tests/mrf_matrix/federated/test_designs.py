"""Designs: what they protect for every drop-out pattern, what they cost, what they refuse."""

import json
import zipfile
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from command_line import run

import strategies
from mrf_matrix import (
    MatrixForestClassifier,
    RandomTrees,
    from_release,
    load_dataset,
    load_release,
    plan,
    save_model,
    save_release,
)
from mrf_matrix.estimators import PosteriorForestClassifier, PrivateNaiveBayesClassifier
from mrf_matrix.federated import CoarseStrategyError, Network, federate, release_of, run_federation
from mrf_matrix.files import ModelFileError, ReleaseFileError
from mrf_matrix.mechanisms import (
    ZCDP,
    DiscreteLaplace,
    NoNoise,
    PureDP,
    Quorum,
    SharedDiscreteLaplace,
    count_cells,
)
from mrf_matrix.planning import FederatedPlan
from strategies.operators import Identity

EPSILON = 1
QUORUMS = [(k, d, c) for k, d, c in product((2, 3, 5), range(4), range(4)) if d + c < k]


def worst_log_ratio(shape, scale=Fraction(EPSILON)):
    """Largest log-ratio of a noisy integer under neighbours."""
    logs = SharedDiscreteLaplace(scale, shape).log_pmf(np.arange(-40, 41))
    return np.abs(np.diff(logs)).max()


@pytest.mark.parametrize(("parties", "dropouts", "colluders"), QUORUMS)
@pytest.mark.parametrize("remove_excess", [False, True])
def test_no_pattern_of_dropouts_passes_epsilon(parties, dropouts, colluders, remove_excess):
    """Colluders' noise is known to them: what protects is the honest contributors' shape."""
    design = federate(
        Identity(4),
        PureDP(EPSILON),
        parties=parties,
        dropouts=dropouts,
        colluders=colluders,
        n_classes=1,
        remove_excess=remove_excess,
    )
    shapes = [layer.shape for layer in design.layers]
    for contributors in range(parties - dropouts, parties + 1):
        taken = sum(shapes[design.revealed_layers(contributors)])
        for colluding in range(min(colluders, contributors) + 1):
            honest = (contributors - colluding) * (sum(shapes) - taken)
            assert honest >= 1
            assert worst_log_ratio(honest) <= EPSILON * (1 + 1e-9)
            everyone = design.law(contributors, contributors if remove_excess else 0)
            assert everyone.shape == contributors * (sum(shapes) - taken)
    below = (parties - dropouts - colluders - 1) * sum(shapes)
    if below:
        assert worst_log_ratio(below) > EPSILON * 1.05
    with pytest.raises(ValueError, match="contributors="):
        design.law(parties - dropouts - 1)


def test_layers_telescope_and_leave_the_central_law():
    design = federate(
        Identity(4), PureDP(1), parties=10, dropouts=4, n_classes=1, remove_excess=True
    )
    assert sum(layer.shape for layer in design.layers) == Fraction(1, 6)
    for contributors in range(6, 11):
        assert design.law(contributors, contributors).shape == 1
        assert design.law(contributors, 0).shape == Fraction(contributors, 6)
    # one who vanishes before the second sum leaves its layers in
    assert design.law(10, 9).shape == Fraction(9, 10) + Fraction(1, 6)


def test_expected_error_follows_the_true_law():
    workload = np.tri(4)
    kept = federate(Identity(4), PureDP(1), parties=10, dropouts=3, n_classes=2)
    removed = federate(
        Identity(4), PureDP(1), parties=10, dropouts=3, n_classes=2, remove_excess=True
    )
    central = 2 * 10 * removed.layers[0].whole.variance
    assert removed.expected_error(workload) == pytest.approx(central)
    assert kept.expected_error(workload) == pytest.approx(central * 10 / 7)
    assert kept.expected_error(workload, 7) == pytest.approx(central)


def test_strategies_are_rounded_coarsely_or_refused_by_name():
    workload = np.tri(32)
    real = strategies.select(workload, "l1", "p_identity", random_state=0)
    design = federate(real, PureDP(1), parties=5, n_classes=1, workload=workload)
    assert 1 <= design.ratio <= 1.01
    assert design.mechanism.law.scale <= 4096
    exact = strategies.evaluate(workload, design.mechanism.rounded.matrix)
    assert exact.loss / real.loss == pytest.approx(design.ratio)
    with pytest.raises(CoarseStrategyError, match=r"expected at most 5%.*zCDP"):
        federate(real, PureDP(Fraction(1, 2000)), parties=5, n_classes=1, workload=workload)
    with pytest.raises(CoarseStrategyError, match="pass workload="):
        federate(real, PureDP(1), parties=5, n_classes=1)
    with pytest.raises(CoarseStrategyError, match="larger epsilon"):
        federate(
            Identity(9), PureDP(Fraction(1, 10**4)), parties=5, n_classes=1, workload=np.eye(9)
        )


def test_a_coarse_strategy_answers_in_records():
    """Integers, their scale and the answers fit together."""
    workload = np.tri(32)
    real = strategies.select(workload, "l1", "p_identity", random_state=0)
    rounded = federate(real, PureDP(1), parties=5, n_classes=1, workload=workload).mechanism.rounded
    close = rounded.matrix.to_dense() / float(rounded.scale)
    assert close == pytest.approx(real.matrix.to_dense(), abs=0.01)


def test_designs_differ_in_their_digest():
    digests = {
        federate(Identity(4), PureDP(epsilon), parties=parties, n_classes=k).digest
        for epsilon, parties, k in ((1, 5, 2), (2, 5, 2), (1, 6, 2), (1, 5, 3))
    }
    assert len(digests) == 4


def test_no_noise_and_no_removal_where_there_is_none():
    design = federate(Identity(4), PureDP(float("inf")), parties=3, n_classes=1)
    assert design.law() == NoNoise()
    assert design.quorum == Quorum(3)
    with pytest.raises(ValueError, match="pure DP"):
        federate(Identity(4), ZCDP(1), parties=3, dropouts=1, n_classes=1, remove_excess=True)
    with pytest.raises(ValueError, match="n_classes"):
        federate(Identity(4), PureDP(1), parties=3, n_classes=0)


def test_log_ratio_control():
    """The figure that the tests above hold against epsilon is the law's own at shape 1."""
    assert worst_log_ratio(Fraction(1)) == pytest.approx(EPSILON)
    assert worst_log_ratio(Fraction(1, 2)) > 1.5 * EPSILON


# Files of shared releases ------------------------------------------------------------------------


CAR = load_dataset("car")
SIZES = CAR.domain.sizes


def release(budget, contributors=6, **options):
    strategy = Identity(int(np.prod(SIZES)), SIZES)
    design = federate(strategy, budget, parties=7, dropouts=2, n_classes=4, **options)
    drawn = np.arange(design.length)
    return release_of(design, drawn, SIZES, contributors=contributors, domain=CAR.domain)


@pytest.mark.parametrize(
    "made",
    [release(PureDP(1)), release(PureDP(1), colluders=2), release(ZCDP(Fraction(1, 10)))],
    ids=["pure", "colluders", "zcdp"],
)
def test_releases_of_shares_go_into_files_and_back(tmp_path, made):
    save_release(made, tmp_path / "shared.mrf")
    again = load_release(tmp_path / "shared.mrf")
    assert np.array_equal(again.answers, made.answers)
    assert again.law == made.law
    assert again.quorum == made.quorum
    assert again.statement == made.statement
    assert again.is_private


def rewritten(path, change):
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    data = json.loads(members["release.json"])
    change(data)
    members["release.json"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)


@pytest.mark.parametrize(
    ("budget", "change"),
    [
        (PureDP(1), {"shape": "1/2"}),
        (PureDP(1), {"shape": "3"}),
        (PureDP(1), {"colluders": 4}),
        (PureDP(1), {"parties": "7"}),
        (PureDP(1), {"dropouts": 9}),
        (ZCDP(1), {"contributors": 4}),
        (ZCDP(1), {"contributors": 8}),
        (ZCDP(1), {"dropouts": 3}),
    ],
)
def test_files_that_claim_more_than_their_noise_gives_are_refused(tmp_path, budget, change):
    path = tmp_path / "shared.mrf"
    save_release(release(budget), path)
    rewritten(path, lambda data: None)
    load_release(path)
    rewritten(path, lambda data: data["shares"].update(change))
    with pytest.raises(ReleaseFileError):
        load_release(path)


def test_shares_without_a_quorum_and_exact_noise_with_one_are_refused(tmp_path):
    path = tmp_path / "shared.mrf"
    for change in (lambda data: data.pop("shares"), lambda data: data.update(noise="exact")):
        save_release(release(PureDP(1)), path)
        rewritten(path, change)
        with pytest.raises(ReleaseFileError):
            load_release(path)


def test_forests_follow_from_a_federated_release_and_say_on_whom_they_rest(tmp_path):
    model = from_release(release(PureDP(1)), forest=RandomTrees(4, 2), random_state=0)
    assert model.predict(CAR.X).shape == (len(CAR.X),)
    assert "conditional on at least 5 parties of 7" in model.privacy_report_.statement
    with pytest.raises(ModelFileError, match="save_release"):
        save_model(model, tmp_path / "model.mrf")


# Plans of parties ---------------------------------------------------------------------------------

pytest.importorskip("cryptography")
CODES, LABELS = CAR.domain.encode(CAR.X), CAR.domain.encode_target(CAR.y)
OWNERS = np.random.default_rng(0).integers(6, size=len(CODES))
FOREST = {"n_trees": 4, "max_depth": 2, "strategy": "identity", "random_state": 0}
BLOCKS = {"n_blocks": 3, "random_state": 0}
PARTIES = {"parties": 6, "dropouts": 2}
CLASSIFIERS = {
    "matrix": lambda **told: MatrixForestClassifier(CAR.domain, **FOREST, **told),
    "tables": lambda **told: PosteriorForestClassifier(CAR.domain, **BLOCKS, **told),
    "naive_bayes": lambda **told: PrivateNaiveBayesClassifier(CAR.domain, **told),
}


class Mine(DiscreteLaplace):
    """A law of somebody else."""


def planned(kind, *, forest=FOREST, **told):
    design = {"tables": BLOCKS, "naive_bayes": {}}.get(kind, forest)
    return plan(CAR.domain, kind, **design, **told)


def tables(features=tuple(range(6))):
    """Each party's counts over some attributes."""
    sizes = tuple(CAR.domain.sizes[i] for i in features)
    return [
        count_cells(CODES[i == OWNERS][:, features], LABELS[i == OWNERS], sizes, 4)
        for i in range(6)
    ]


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.5}], ids=["pure", "zcdp"])
@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample", "tables"])
def test_errors_are_those_of_one_party_by_the_variance_of_the_law(kind, budget):
    """No excess is removed: k shares of which s make up the law."""
    alone, shared = planned(kind, **budget), planned(kind, **budget, **PARTIES, colluders=1)
    assert isinstance(shared, FederatedPlan)
    (design,) = shared.designs
    assert shared.budget == alone.budget
    tolerance = 1e-9 if "epsilon" in budget else 0.02  # shares of Gaussians cover their sum
    assert shared.total == pytest.approx(alone.total * 6 / 3, rel=tolerance)
    fewest = shared.contributed_by(4)
    assert fewest.total == pytest.approx(alone.total * 4 / 3, rel=tolerance)
    assert fewest.parts[0].mechanism.law == design.law(4)
    with pytest.raises(ValueError, match="contributors=3"):
        shared.contributed_by(3)
    doubled = {name: 2 * amount for name, amount in budget.items()}
    expected = planned(kind, **doubled, **PARTIES, colluders=1).total
    assert shared.at(**doubled).total == pytest.approx(expected)


def test_removal_of_the_excess_is_promised():
    alone, shared = planned("matrix"), planned("matrix", **PARTIES, remove_excess=True)
    assert shared.total == pytest.approx(alone.total)
    assert len(shared.rounds) == 2


@pytest.mark.parametrize("remove_excess", [False, True])
def test_what_is_planned_is_what_a_run_sends_and_releases(remove_excess):
    made = planned("matrix", **PARTIES, remove_excess=remove_excess)
    found = run_federation(made.designs[0], tables())
    for one in made.rounds[0]:
        assert found.bytes_up[one.round] == one.to_server
        assert found.bytes_down[one.round] == one.to_party
    assert found.release.law == made.parts[0].mechanism.law
    figures = json.loads(json.dumps(made.to_dict()))["parties"]
    sums = 2 if remove_excess else 1
    assert figures["bytes_from_a_party"] == sums * sum(found.bytes_up.values())
    with pytest.raises(TypeError, match="run_federation"):
        made.release(tables()[:1], noise="exact")


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_without_noise_classifiers_of_parties_are_the_central_ones(kind):
    endless = {"epsilon": float("inf")}
    made = planned(kind, **endless, **PARTIES)
    found = run_federation(made.designs[0], tables()).release
    federated = CLASSIFIERS[kind](**endless).fit_release(made, found)
    central = CLASSIFIERS[kind](**endless).fit(CAR.X, CAR.y)
    assert np.array_equal(federated.predict_proba(CAR.X), central.predict_proba(CAR.X))
    assert federated.privacy_report_.noise == "none"


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifiers_know_the_law_of_those_who_stayed(kind):
    made = planned(kind, **PARTIES)
    found = run_federation(made.designs[0], tables(), network=Network({1: "masked"}))
    model = CLASSIFIERS[kind]().fit_release(made, found.release)
    assert model.plan_.parts[0].mechanism.law == made.designs[0].law(5)
    assert model.privacy_report_.noise == "shares"
    assert "conditional on at least 4 parties" in model.privacy_report_.statement
    assert model.score(CAR.X, CAR.y) > 0.5


def test_every_ensemble_has_its_own_sum():
    several = {**FOREST, "n_ensembles": 2, "max_features": 3}
    made = planned("matrix", forest=several, **PARTIES)
    found = [
        run_federation(design, tables(part.ensemble.features)).release
        for design, part in zip(made.designs, made.parts, strict=True)
    ]
    model = MatrixForestClassifier(CAR.domain, **several).fit_release(made, *found)
    assert len(model.ensembles_) == 2
    assert "at least 4 parties of 6" in model.privacy_report_.statement
    with pytest.raises(ValueError, match="another strategy"):
        model.fit_release(made, found[1], found[0])


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"epsilon": 2}, "budget"), ({"neighboring": "replace_one"}, "neighboring")],
)
def test_releases_of_other_plans_are_refused(changes, told):
    made = planned("naive_bayes", **PARTIES)
    found = run_federation(made.designs[0], tables()).release
    with pytest.raises(ValueError, match=told):
        PrivateNaiveBayesClassifier(CAR.domain, **changes).fit_release(made, found)
    with pytest.raises(ValueError, match="another strategy, budget"):
        planned("naive_bayes", **changes, **PARTIES).measured([found])
    with pytest.raises(ValueError, match="kind"):
        PosteriorForestClassifier(CAR.domain).fit_release(made, found)


@pytest.mark.parametrize(
    ("kind", "told", "expected"),
    [
        ("matrix", {"dropouts": 1}, "without parties"),
        ("matrix", {"parties": 3, "dropouts": 3}, "nobody's noise"),
        ("matrix", {"parties": 3, "rho": 1, "remove_excess": True}, "zCDP"),
        ("matrix", {"parties": 3, "law": Mine}, "law=Mine: parties share proved noise only"),
        ("subsample", {"parties": 3, "voting": "hard"}, "do not add up"),
    ],
)
def test_plans_that_no_parties_can_run_are_refused(kind, told, expected):
    with pytest.raises(ValueError, match=expected):
        planned(kind, **told)


def test_plans_of_one_curator_are_not_fitted_from():
    with pytest.raises(TypeError, match=r"expected that of plan\(\.\.\., parties=\)"):
        PrivateNaiveBayesClassifier(CAR.domain).fit_release(planned("naive_bayes"))


def test_shares_of_a_budget_too_small_for_them_are_refused():
    with pytest.raises(CoarseStrategyError, match="larger epsilon"):
        planned("naive_bayes", epsilon=1e-3, **PARTIES)


@pytest.mark.parametrize("epsilon", [0.5, 0.05])
def test_tables_of_blocks_take_lighter_weights_where_shares_need_them(epsilon):
    """Weights of a thousand would need noise that no party can share; a few digits do."""
    alone, shared = (planned("tables", epsilon=epsilon, **told) for told in ({}, PARTIES))
    assert shared.designs[0].central.law.scale <= 4096 < alone.parts[0].mechanism.law.scale
    assert shared.total == pytest.approx(alone.total * 6 / 4, rel=0.05)
    assert shared.at(epsilon=0.1).total == pytest.approx(
        alone.at(epsilon=0.1).total * 1.5, rel=0.05
    )
    found = run_federation(shared.designs[0], tables()).release
    model = PosteriorForestClassifier(CAR.domain, epsilon=epsilon, **BLOCKS)
    assert model.fit_release(shared, found).measurement_.weights[0] < 1000


def test_the_command_line_plans_for_parties(tmp_path):
    short = ["--n-trees", "4", "--max-depth", "2", "--strategy", "identity"]
    told = ["--parties", "6", "--dropouts", "2", "--no-pictures", "--output", str(tmp_path)]
    done = run("plan", "car", *short, *told)
    assert done.exit_code == 0, done.output
    for text in ("a party sends", "a party receives", "rms if 4"):
        assert text in done.output
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored["parties"]["dropouts"] == 2
