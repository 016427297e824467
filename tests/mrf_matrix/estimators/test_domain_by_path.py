"""A domain by the path of its file is as public as the domain itself; "from_data" is not."""

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureDP,
    RandomTrees,
    count_stream,
    from_release,
    measure,
    plan,
    save_model,
    save_release,
    tune,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.federated import federate, run_federation
from mrf_matrix.federated.systems import grow_privately
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.forests import LearnedStructureError, PrivateMultinomialTrees
from mrf_matrix.study import evaluate
from strategies.operators import Identity

DOMAIN = Domain.from_sizes([3, 2], n_classes=2)
X, Y = np.array([[0, 1], [1, 0], [2, 1], [0, 0]] * 5), np.array([0, 1, 1, 0] * 5)
KINDS = {
    MatrixForestClassifier: {"n_trees": 2, "max_depth": 1, "strategy": "identity"},
    BatchPredictionClassifier: {"n_trees": 2, "max_depth": 1, "strategy": "identity"},
    PosteriorForestClassifier: {},
    PrivateForestClassifier: {},
    PrivateNaiveBayesClassifier: {},
    ResidualForestClassifier: {},
    LabelTreeClassifier: {},
    PooledForestClassifier: {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_as_public_as_its_domain(kind, tmp_path):
    path = str(tmp_path / "domain.json")
    DOMAIN.save(path)
    for given in (path, tmp_path / "domain.json"):
        model = kind(given, **KINDS[kind]).fit(X, Y)
        model.predict(X)
        assert model.domain_ == DOMAIN
        assert model.privacy_report_.noise == "exact"
        assert model.privacy_report_.statement.startswith("Private release")


def test_under_delta_a_path_takes_the_noise_that_its_domain_takes(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    for kind, settings in KINDS.items():
        made = [kind(one, delta=1e-6, **settings) for one in (DOMAIN, tmp_path / "domain.json")]
        first, other = (one._budget for one in made)
        assert first == other, kind


def test_a_federated_plan_is_taken_by_its_domains_path(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    settings = {"epsilon": 1, "n_trees": 2, "max_depth": 1, "strategy": "identity"}
    planned = plan(DOMAIN, parties=2, random_state=0, **settings)
    with pytest.raises(ValueError, match="release") as error:  # there is none, and no more is wrong
        MatrixForestClassifier(tmp_path / "domain.json", **settings).fit_release(planned)
    assert "domain of the plan" not in str(error.value)


@pytest.fixture(scope="module")
def read_off():
    with pytest.warns(PrivacyLeakWarning):
        return Domain.from_data(X, Y)


WAYS = {
    "itself": lambda domain, folder: domain,
    "its file": lambda domain, folder: domain.save(folder / "d.json") or folder / "d.json",
    "a part": lambda domain, folder: domain.select([0, 1]),
    "its coarser one": lambda domain, folder: domain.coarser(2),
    "its copy": lambda domain, folder: Domain.from_dict(domain.to_dict()),
    "a model's": lambda domain, folder: PosteriorForestClassifier(domain).fit(X, Y).domain_,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_that_was_read_off_claims_nothing_however_it_is_given(
    kind, way, read_off, tmp_path
):
    given = WAYS[way](read_off, tmp_path)
    model = kind(given, **KINDS[kind]).fit(X, Y)
    model.predict(X)
    assert model.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")
    assert model.domain_.is_read_off
    with pytest.raises(ValueError, match="no charge would be true"):
        kind(given, ledger=PrivacyLedger(epsilon=9), **KINDS[kind]).fit(X, Y)
    if kind not in (BatchPredictionClassifier, PrivateNaiveBayesClassifier):  # no files of theirs
        with pytest.raises(ValueError, match="allow_nonprivate"):
            save_model(model, tmp_path / "model.mrf")


def written_down(domain):
    """Return the same domain as somebody would write it from public knowledge."""
    return Domain.from_dict(domain.to_dict() | {"is_read_off": False})


CODES = np.array([[0, 1], [1, 0], [2, 1], [0, 0]] * 5)


def planned_release(domain):
    made = plan(domain, "matrix", epsilon=1, random_state=0, **KINDS[MatrixForestClassifier])
    return made.release([count_stream([(X, Y)], domain)], noise="exact")[0]


def test_a_plan_over_it_releases_nothing_private(read_off, tmp_path):
    release = planned_release(read_off)
    assert release.provenance.read_off
    assert not release.is_private
    with pytest.raises(ReleaseFileError):
        save_release(release, tmp_path / "r")
    public = written_down(read_off)
    assert planned_release(public).is_private, "the positive control"


def test_a_release_over_another_domain_is_not_private_over_it(read_off):
    public = written_down(read_off)
    counts, forest = count_stream([(X, Y)], public), RandomTrees(2, 1)
    release = measure(Identity(public.size), counts, PureDP(1))
    assert from_release(release, public, forest=forest).privacy_report_.statement.startswith("Priv")
    model = from_release(release, read_off, forest=forest)
    assert model.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")


def test_parties_release_nothing_private_over_it(read_off):
    counts = count_stream([(X, Y)], read_off)
    design = federate(Identity(read_off.size), PureDP(1), parties=2, n_classes=2)
    ledgers = [PrivacyLedger(epsilon=1), PrivacyLedger(epsilon=1)]
    for paid in ({"ledgers": ledgers}, {"server_ledger": ledgers[0]}):
        with pytest.raises(ValueError, match="no charge would be true"):
            run_federation(design, [counts, counts], domain=read_off, **paid)
    assert not any(one.charges for one in ledgers)
    assert not run_federation(design, [counts, counts], domain=read_off).release.is_private
    trees = PrivateMultinomialTrees(1, n_trees=2, max_depth=1)
    with pytest.raises(ValueError, match="read off records"):
        grow_privately(read_off, [(CODES, Y), (CODES, Y)], trees)


def test_an_evaluation_of_a_model_over_it_is_not_private(read_off):
    model, ledger = PosteriorForestClassifier(read_off).fit(X, Y), PrivacyLedger(epsilon=1)
    with pytest.raises(ValueError, match="no charge would be true"):
        evaluate(model, X, Y, epsilon=1, ledger=ledger)
    assert not evaluate(model, X, Y, epsilon=1).release.is_private


def test_a_forest_over_it_is_not_taken_as_public(read_off):
    public = written_down(read_off)
    forest = RandomTrees(2, 1).grow(read_off, random_state=0)
    for fit in (
        lambda: MatrixForestClassifier(public, forest=forest).fit(X, Y),
        lambda: from_release(
            measure(Identity(6), count_stream([(X, Y)], public), PureDP(1)), public, forest=forest
        ),
    ):
        with pytest.raises(LearnedStructureError, match="read off records"):
            fit()
    MatrixForestClassifier(read_off, forest=forest).fit(X, Y)


def test_only_a_domain_that_was_read_off_says_so(read_off):
    public = written_down(read_off)
    assert read_off != public
    assert "is_read_off" not in public.to_dict()
    assert not Domain.from_dict(public.to_dict()).is_read_off
    with pytest.raises(ValueError, match="is_read_off is not true or false"):
        Domain.from_dict(public.to_dict() | {"is_read_off": "no"})


def test_a_domain_read_off_the_records_claims_nothing():
    with pytest.warns(PrivacyLeakWarning):
        model = PosteriorForestClassifier("from_data").fit(X, Y)
    assert not model.privacy_report_.statement.startswith("Private release")
    with pytest.raises(TypeError, match="expected a Domain or the path"):
        PosteriorForestClassifier("from_nowhere").fit(X, Y)


def test_counts_and_searches_take_a_path(tmp_path):
    path = tmp_path / "domain.json"
    DOMAIN.save(path)
    assert count_stream([(X, Y)], path).counts.sum() == len(Y)
    found = tune(path, epsilon=1, objective="error",
                 space={"max_depth": [1], "n_trees": [2], "strategy": ["identity"]})  # fmt: skip
    assert found.best.leaves > 0
