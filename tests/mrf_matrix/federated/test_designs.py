"""Designs: what they protect for every drop-out pattern, what they cost, what they refuse."""

import json
import zipfile
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

import strategies
from mrf_matrix import (
    RandomTrees,
    from_release,
    load_dataset,
    load_release,
    save_model,
    save_release,
)
from mrf_matrix.federated import CoarseStrategyError, federate, release_of
from mrf_matrix.federated.shares.design import gaussian_share, spread_of_sums
from mrf_matrix.files import ModelFileError, ReleaseFileError
from mrf_matrix.mechanisms import (
    ZCDP,
    NoNoise,
    PureDP,
    Quorum,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
)
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


def divergence_rate(mass, shift, alpha):
    """Rényi divergence over its order, of a law and itself shifted."""
    ahead, behind = np.log(mass[shift:]), np.log(mass[:-shift])
    return logsumexp(alpha * ahead + (1 - alpha) * behind) / (alpha - 1) / alpha


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("variance", [0.2, 0.3, 0.5, 1.0, 2.0])
def test_sums_of_discrete_gaussians_protect_as_claimed(variance, parties):
    """By direct convolution; without the correction the claim is false where v is small."""
    reach = np.arange(-60, 61)
    share = np.exp(-(reach**2) / (2 * variance))
    share /= share.sum()
    mass = share
    for _ in range(parties - 1):
        mass = np.convolve(mass, share)
    mass = mass[mass > 1e-250]
    excess = [
        divergence_rate(mass, shift, alpha) - shift**2 / (2 * parties * variance)
        for shift in (1, 2, 3)
        for alpha in (1.001, 1.1, 1.5, 2.0, 3.0, 4.0)
    ]
    assert max(excess) <= spread_of_sums(variance, parties) * (1 + 1e-9) + 1e-12
    if variance <= 0.5:
        assert max(excess) > 1e-4


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(5)])
@pytest.mark.parametrize(("dropouts", "colluders"), [(0, 0), (3, 2)])
def test_gaussian_shares_spend_at_most_the_budget(neighboring, rho, dropouts, colluders):
    design = federate(
        Identity(9),
        ZCDP(rho),
        parties=12,
        dropouts=dropouts,
        colluders=colluders,
        n_classes=2,
        neighboring=neighboring,
    )
    mechanism = design.mechanism
    variance = design.layers[0].scale ** 2
    square = mechanism.rounded.column_sum * mechanism.squared_factor
    honest = design.quorum.honest
    spent = (
        Fraction(square) / (2 * honest * variance)
        + Fraction(spread_of_sums(float(variance), honest)) * 18
    )
    assert variance >= 4
    assert spent <= rho
    assert spent == pytest.approx(rho, rel=1e-6)
    assert isinstance(design.law(), SharedDiscreteGaussian)


def test_a_correction_that_eats_the_budget_is_refused():
    with pytest.raises(ValueError, match="correction"):
        gaussian_share(4, 1, 10**30, Fraction(1), 2)


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
