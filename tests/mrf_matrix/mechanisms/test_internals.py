"""What no public name shows: scales, tables of shares, filters of ledgers, claims, factors."""

import copy
import json
import pickle
import warnings
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from noise_laws import TwoDraws, delta_of
from scipy import stats

from mrf_matrix import Domain, PrivateNaiveBayesClassifier, Provenance, privacy_ledger
from mrf_matrix.domain.columns import Column
from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm
from mrf_matrix.estimators.constructors import claim_parameters
from mrf_matrix.estimators.count_source import CountedTables
from mrf_matrix.estimators.record_source import EncodedRecords, RecordSource
from mrf_matrix.labels.questions import JointCounts
from mrf_matrix.mechanisms import (
    ZCDP,
    ApproximateDP,
    BudgetError,
    BudgetWarning,
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyLedger,
    PrivateDataError,
    PureDP,
    count_cells,
)
from mrf_matrix.mechanisms.budget import claimed_budget, claiming_budgets
from mrf_matrix.mechanisms.ledger import payers
from mrf_matrix.mechanisms.ledger.filter_state import (
    PrivacyFilter,
    filter_state_of,
    opening_state,
    privacy_filter,
    root_below,
)
from mrf_matrix.mechanisms.ledger.rules import describe_charges
from mrf_matrix.mechanisms.measurement.least_squares import (
    _FACTORS,
    answer_coefficients,
    estimated_cells,
)
from mrf_matrix.mechanisms.noise import _measurement
from mrf_matrix.mechanisms.rounding import check_entries, entry_bound
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.mechanisms.shared_noise import (
    cumulative,
    draw_within,
    negative_binomial,
    whole_root,
)
from mrf_matrix.mechanisms.statement import compose_budgets
from strategies.operators import Dense, Grouping, Identity, Kronecker, Product, Scaled


def test_opendp_confirms_the_privacy_of_the_scales():
    """OpenDP's own privacy map, in its own arithmetic, gives at most the budget."""
    for epsilon in (Fraction(1, 10), Fraction(1, 3), Fraction(7, 5)):
        laplace = DiscreteLaplace.calibrated(3, 1, epsilon)
        claimed = _measurement(float(laplace.scale), "laplace").map(3)
        assert epsilon * (1 - Fraction(1, 10**12)) <= Fraction(claimed)
        assert claimed <= np.nextafter(np.nextafter(float(epsilon), inf), inf)
        gaussian = DiscreteGaussian.calibrated(9, 1, epsilon)
        claimed = _measurement(float(gaussian.scale), "gaussian").map(3.0)
        assert claimed == pytest.approx(float(epsilon), rel=1e-12)


# Shares of noise ---------------------------------------------------------------------------------


SHARED_LAWS = [
    (Fraction(1, 2), Fraction(1, 3)),
    (Fraction(1), Fraction(1, 10)),
    (Fraction(5), Fraction(1)),
]


def counter(values):
    """A source of words that hands out given numbers."""
    left = list(values)
    return lambda count: np.array([left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize(("scale", "shape"), [*SHARED_LAWS, (Fraction(128), Fraction(1, 100))])
def test_integer_tables_bound_the_distribution_tightly(scale, shape):
    low, high = cumulative(scale, shape, 64)
    assert max(h - b for b, h in zip(low, high, strict=True)) <= 1
    exact = stats.nbinom.cdf(np.arange(len(low)), float(shape), -np.expm1(-1 / float(scale)))
    assert np.array(low, dtype=float) / 2**64 == pytest.approx(exact, rel=1e-13)
    assert 2**64 - low[-1] <= 2


@pytest.mark.parametrize(("scale", "shape"), SHARED_LAWS)
def test_words_are_settled_as_finer_tables_say(scale, shape):
    """All 8-bit words, with more bits where 8 do not do: the same as 136 bits at once."""
    low, high = cumulative(scale, shape, 136)
    for value in range(256):
        for more in (0, 2**63 - 1, 2**64 - 2):
            place = draw_within(scale, shape, value, 8, counter([more, 7]))
            uniform = (((value << 64) + more) << 64) + 7
            assert place == 0 or high[place - 1] <= uniform
            assert uniform < low[place]


def test_one_word_and_more_give_the_same_draws():
    """A word on the border of two values is settled by the next word."""
    low, high = cumulative(Fraction(1), Fraction(1, 2), 64)
    assert high[0] == low[0] + 1
    drawn = ([low[0] - 1], [low[0], 0], [low[0], 2**64 - 1], [high[0]])
    draw = [negative_binomial(Fraction(1), Fraction(1, 2), 1, counter(w)).item() for w in drawn]
    assert draw == [0, 0, 1, 1]


def test_whole_roots():
    for number, degree in ((5, 3), (1, 5), (2**90 - 1, 3), (2**90, 3), (10**40 + 7, 7)):
        root = whole_root(number, degree, 2**90)
        assert root**degree <= number < (root + 1) ** degree


# Laws of ones own ---------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.0, 1.0, 3.0, 8.0])
def test_flips_are_those_of_the_law(margin):
    """Twice as many draws of one law, or as many of the sum of two."""
    scale = Fraction(3, 2)
    weights = np.array([1.0, 2.0])
    own = NoiseSum((NoiseTerm.of(weights, TwoDraws(scale)),))
    doubled = NoiseSum((NoiseTerm.of(np.repeat(weights, 2), DiscreteLaplace(scale)),))
    assert own.flip_probability(margin) == pytest.approx(doubled.flip_probability(margin), abs=1e-9)


# Laws that are not known -------------------------------------------------------------------------


@dataclass(frozen=True)
class Mine(DiscreteLaplace):
    """Another law, whatever it is."""


def test_flips_are_those_of_the_law_itself():
    """A law that only inherits has the flips of its parent, not none."""
    one, other = (
        NoiseSum((NoiseTerm.of(np.ones(3), law),)).flip_probability(2.0)
        for law in (Mine(Fraction(2)), DiscreteLaplace(Fraction(2)))
    )
    assert one == other > 0.1


# Claims -------------------------------------------------------------------------------------------

CLAIMS = [(0.1, 1e-6), (0.3, 1e-9), (1, 1e-6), (1, 1e-2), (3.7, 1e-5), (10, 1e-3)]
VECTORS = [(1,), (2,), (1, 1), (2, -1), (1, 1, 1)]


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-3), (2, 1e-4), (4, 0.05), (8, 1e-6)])
def test_the_drawn_noise_keeps_the_claim_and_less_noise_does_not(vector, epsilon, delta):
    budget = claimed_budget(epsilon, delta)
    law = DiscreteGaussian.calibrated(sum(x * x for x in vector), 1, budget.exact)
    scale = float(law.scale)
    found = delta_of(scale, vector, epsilon)
    assert delta / 1000 < found <= delta
    assert delta_of(scale / 2, vector, epsilon) > delta  # what a broken calibration would show


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_an_accountant_agrees_on_the_whole_and_on_the_sum_of_shares(epsilon, delta):
    budget = claimed_budget(epsilon, delta)
    orders = 1 + np.geomspace(0.02, 1e4, 4000)
    whole, shares = (RdpAccountant(orders) for _ in range(2))
    whole.compose(ZCDpEvent(float(budget.rho)))
    for share in budget.split([1, 2, 5]):
        shares.compose(ZCDpEvent(float(share.rho)))
    for accountant in (whole, shares):
        found = accountant.get_epsilon(delta)
        assert found == pytest.approx(epsilon, rel=1e-3)
    assert budget.epsilon(delta) <= epsilon
    assert ZCDP(budget.rho * Fraction(101, 100)).epsilon(delta) > epsilon  # the largest ρ


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_the_claim_is_printed_as_asked(epsilon, delta):
    pure, gaussian = claiming_budgets(epsilon, delta)
    for budget in (pure, gaussian):
        said = budget.claim(delta)
        assert said == f"(epsilon={epsilon}, delta={delta!r})-DP via {budget!r}"
        assert claim_parameters(budget, delta)["delta"] == delta
        assert budget in claiming_budgets(**claim_parameters(budget, delta))


def test_a_claim_that_cannot_be_named_again_is_refused():
    with pytest.raises(BudgetError, match=r"epsilon= and delta= itself"):
        claim_parameters(ZCDP(Fraction(1, 7)), 1e-6)


def test_without_delta_nothing_changes():
    assert claimed_budget() == PureDP(1)
    assert claimed_budget(rho=0.5) == ZCDP(0.5)
    assert ZCDP(0.5).claim(0) == "ZCDP(rho=0.5)"
    assert PureDP(inf).claim(1e-6) == "PureDP(epsilon=inf)"


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"delta": 1}, "between 0 and 1"),
        ({"delta": -1e-6}, "delta=-1e-06"),
        ({"delta": Fraction(1, 10**400)}, "between 0 and 1"),
        ({"delta": 1e-6, "rho": 1}, "delta=1e-06 and rho=1"),
        ({"delta": 1e-6, "epsilon": inf}, "infinite epsilon"),
        ({"delta": 1e-6, "epsilon": 0}, "epsilon=0"),
    ],
)
def test_what_claims_nothing_is_refused_by_name(budget, message):
    with pytest.raises(BudgetError, match=message):
        claiming_budgets(**budget)


@pytest.mark.parametrize("delta", [None, "1e-6", True, -1, float("nan")], ids=repr)
def test_the_range_that_is_said_of_delta_is_the_one_that_is_taken(delta):
    with pytest.raises((TypeError, BudgetError), match=r"expected 0 .*between 0 and 1") as found:
        claiming_budgets(1, delta)
    said = str(found.value)
    assert "positive" not in said
    assert "delta=1.0" not in said
    example = float(said.partition("such as delta=")[2].rstrip("."))
    assert len(claiming_budgets(1, example)) == 2
    assert claiming_budgets(1, 0) == (PureDP(1),)


# Counts -------------------------------------------------------------------------------------------

SIZES = (2, 3, 2)


def test_whatever_holds_records_shows_its_kind_alone_and_stays():
    codes, labels = np.array([[1, 2, 0]], dtype=np.int32), np.array([2], dtype=np.int32)
    domain = Domain.from_sizes(SIZES, n_classes=3)
    counts = count_cells(codes, labels, SIZES, 3)
    for one in (
        counts,
        EncodedRecords(domain, codes, labels),
        CountedTables(domain, {(0, 1, 2): counts}),
        RecordSource(domain, codes, labels),
        JointCounts(labels.astype(np.int64), labels.astype(np.int64), 0),
        Column("age", codes[:, 0]),
    ):
        assert repr(one).split(",")[0].rstrip(")") == f"{type(one).__name__}(private"
        for leave in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(PrivateDataError, match=type(one).__name__):
                leave(one)


def test_parts_of_records_are_counted_afresh():
    """Two steps of one budget each see records that the other does not."""
    codes = np.stack(np.unravel_index(np.arange(48) % 12, SIZES), axis=1).astype(np.int32)
    labels = np.zeros(48, dtype=np.int32)
    records = EncodedRecords(Domain.from_sizes(SIZES, n_classes=3), codes, labels)
    assert records.cells((0, 1)).counts.sum() == 48
    for part in records.deal(0.5, Bits(np.random.default_rng(0))):
        assert 0 < len(part.codes) < 48
        assert part.cells((0, 1)).counts.sum() == len(part.codes)


# What a release rests on -------------------------------------------------------------------------


OWN, TWO = PureDP(1), PureDP(2)


def earlier(budget=TWO, neighboring="add_remove"):
    """Return the provenance of what one earlier charge paid for."""
    return Provenance.spent(budget, neighboring, "splits")


def test_charges_compose_by_implication_and_no_further():
    def whole(*parts):
        return compose_budgets([one for part in parts for one in part.spendings])

    assert whole(earlier(), earlier()) == (PureDP(4), "add_remove")
    assert whole(earlier(), earlier(neighboring="replace_one")) == (PureDP(6), "replace_one")
    assert whole(earlier(), earlier(ZCDP(1))) == (ZCDP(3), "add_remove")
    once = Fraction(1, 2) + 4 * 1  # ε=1 of one replaced, and ρ=1 of one more or less
    assert whole(earlier(PureDP(1), "replace_one"), earlier(ZCDP(1))) == (
        ZCDP(once),
        "replace_one",
    )


# Filters ------------------------------------------------------------------------------------------

DELTA = 1e-6


def pay(ledger, budget):
    return ledger.charge(budget, "a release", neighboring="add_remove")


# -- filters ----------------------------------------------------------------------------------


EPSILONS = ["1e-140", "1/10", "50", "1e9"]
DELTAS = ["1e-300", "1e-3", "0.999"]
ENDS = list(product(EPSILONS[::3], DELTAS[::2]))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [*((e, "1e-9") for e in EPSILONS), *(("1", d) for d in DELTAS), *ENDS]
)
def test_every_total_has_a_filter_that_takes_what_converts_to_it(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    found = privacy_filter(epsilon, delta, Fraction(0))
    assert found.rho == ZCDP.for_approximate_dp(epsilon, delta).rho
    assert found.implies(epsilon, delta)


def test_a_filter_that_lets_more_pass_implies_nothing():
    epsilon, delta = Fraction(3), Fraction(1, 10**6)
    found = privacy_filter(epsilon, delta, Fraction(0))
    for more in (
        PrivacyFilter(found.after, found.order, found.rho * (1 + Fraction(1, 10**6))),
        PrivacyFilter(Fraction(1), found.order, found.rho),
        PrivacyFilter(Fraction(-1), found.order, found.rho),
        PrivacyFilter(found.after, found.order * 2, found.rho),
        PrivacyFilter(found.after, Fraction(1, 2), found.rho),
        PrivacyFilter(found.after, Fraction(1), found.rho),
    ):
        assert not more.implies(epsilon, delta)
    assert not found.implies(epsilon, delta / 2)


@given(st.fractions(Fraction(1, 10**40), 10**40))
def test_roots_are_rounded_downward(number):
    root = root_below(number)
    assert root**2 <= number < (root * (1 + Fraction(1, 10**25))) ** 2


# -- one identity, files, threads, processes --------------------------------------------------


def test_a_file_is_continued_under_the_filter_that_it_says(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    ledger = PrivacyLedger.open(path, epsilon=3, delta=DELTA)
    for budget in (PureDP(2), ZCDP(0.01)):
        pay(ledger, budget)
    record = json.loads(path.read_text())
    assert record["schema_version"] == 5
    assert record["budget"] == {"epsilon": "3", "delta": "1/1000000"}
    assert record["filter"]["after"] == "2"
    assert PrivacyLedger.from_dict(record).to_dict() == record == ledger.to_dict()

    # another version of what converts would find other digits: the file's hold
    def other_digits(*of):
        found = privacy_filter(*of)
        return replace(found, order=found.order * Fraction(999, 1000), rho=found.rho / 2)

    monkeypatch.setattr("mrf_matrix.mechanisms.ledger.filter_state.privacy_filter", other_digits)
    again = PrivacyLedger.open(path, epsilon=3, delta=DELTA)
    pay(again, ZCDP(ledger.remaining.rho))
    assert ledger.remaining.rho == 0
    assert pickle.loads(pickle.dumps(ledger)).account == again.account
    for other in ({"epsilon": 3}, {"epsilon": 3, "delta": 1e-7}, {"rho": 1}):
        with pytest.raises(BudgetError, match="keeps its terms"):
            PrivacyLedger.open(path, **other)


def test_an_order_that_was_picked_afterwards_is_refused():
    """The filter that lets most pass, given the charges, is not the one that was fixed."""
    total = ApproximateDP(1, 1e-5)
    own = opening_state(total).filter
    budgets = [PureDP(Fraction(1, 2)), ZCDP(Fraction(1, 1000))]
    assert filter_state_of(total, own, budgets).filter == own
    rounded = replace(own, order=own.order * Fraction(1001, 1000), rho=own.rho * Fraction(99, 100))
    assert filter_state_of(total, rounded, budgets).filter == rounded, (
        "as another version may round"
    )
    picked = replace(own, order=own.order * 2, rho=own.rho / 2)
    assert picked.implies(total.epsilon, total.delta)
    with pytest.raises(BudgetError, match="not the one that a ledger of this total has"):
        filter_state_of(total, picked, budgets)


# Default ledgers ----------------------------------------------------------------------------------

DOMAIN = Domain.from_sizes([2, 2], n_classes=2)
X, Y = np.array([[0, 1], [1, 0]]), np.array([0, 1])


def fit(**parameters):
    return PrivateNaiveBayesClassifier(DOMAIN, **parameters).fit(X, Y)


def test_the_second_fit_without_a_ledger_warns_once_with_the_sum(monkeypatch):
    monkeypatch.setattr(payers, "UNTRACKED", payers.UntrackedSpending())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(noise="research"), fit(epsilon=float("inf")), fit(ledger=PrivacyLedger(epsilon=1))
        with privacy_ledger(epsilon=1):
            fit()
        fit(epsilon=0.5)
    with pytest.warns(BudgetWarning, match=r"epsilon=1\.5") as found:
        fit()
    assert found[0].filename == __file__, "the line that fits, none of the library's"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()


def test_words_are_told_once_and_kept(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=2)
    with describe_charges(purpose="a study", data="records.csv") as charges:
        ledger.charge(PureDP(1), "fit", neighboring="add_remove")
    ledger.describe(charges[0].number, model="ab" * 32)
    again = PrivacyLedger.open(tmp_path / "ledger.json")
    assert again.charges[0].words == {
        "purpose": "a study", "data": "records.csv", "model": "ab" * 32,
    }  # fmt: skip
    assert "a study; data records.csv; model abababababab" in " ".join(str(again).split())
    for number, words, message in (
        (1, {"purpose": "another"}, "keeps it"),
        (2, {"purpose": "another"}, "number=2"),
        (1, {"colour": "red"}, "colour"),
        (1, {"data": "two\nlines"}, "data=.* one line"),
        (1, {"model": " "}, "model has 1 char"),
    ):
        with pytest.raises(ValueError, match=message):
            ledger.describe(number, **words)
    assert again.spent == 1


# Least squares ------------------------------------------------------------------------------------
RNG = np.random.default_rng(4)


def test_factors_are_kept_between_releases():
    strategy = Dense(RNG.normal(size=(30, 6)))
    first = estimated_cells(strategy, np.ones((30, 1)))
    kept = _FACTORS[strategy]
    assert np.array_equal(estimated_cells(strategy, np.ones((30, 1))), first)
    assert _FACTORS[strategy] is kept
    size = len(_FACTORS)
    del strategy
    assert len(_FACTORS) == size - 1


# Rounding -----------------------------------------------------------------------------------------


def test_bounds_of_entries_are_those_of_the_entries():
    cases = [
        (Identity(3), 1), (Dense([[-5, 1]]), 5), (Dense([[2, 7]]), 7),
        (Product(Dense([[3, -4]]), Grouping([0, 1, 1])), 4),
        (Kronecker([Dense([[2, -3]]), Dense([[5, 1]])]), 15),
    ]  # fmt: skip
    for matrix, largest in cases:
        assert entry_bound(matrix) == largest
    check_entries(Dense([[2**62 - 1]]))
    with pytest.raises(ValueError, match="less than"):
        check_entries(Dense([[2**62]]))


# Whole numbers below any limit --------------------------------------------------------------------

LIMITS = {
    "two": 2,
    "five": 5,
    "seven": 7,
    "most of a word": 3 << 62,
    "a word": 1 << 64,
    "more than a word": (1 << 64) + 1,
    "many words": 1 << 1000,
    "most of many": (3 << 998) + 5,
}
SKEWED = ["five", "most of a word", "most of many"]
"""Limits that a number of as many bits, reduced to below them, shows to be skewed."""

DRAWS = 6000


@dataclass(frozen=True, eq=False)
class Fixed(Bits):
    """Bits that are written down."""

    left: list = field(default_factory=list)

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


def drawn(limit, draws=DRAWS):
    bits = Bits(np.random.default_rng(0))
    return [bits.number_below(limit) for _ in range(draws)]


def reduced(limit):
    """Return numbers that are reduced where they should be drawn again."""
    return [number % limit for number in drawn(1 << limit.bit_length())]


def evenness(numbers, limit):
    """Return the smaller p-value of chi-square: of where numbers lie, and of their remainders.

    `limit`: far above the number of parts, or at most that.
    """
    assert 0 <= min(numbers) <= max(numbers) < limit
    parts = min(limit, 16)
    starts = [-(-part * limit // parts) for part in range(parts + 1)]
    shares = [(end - start) / limit for start, end in pairwise(starts)]
    places = np.bincount([number * parts // limit for number in numbers], minlength=parts)
    last = np.bincount([number % parts for number in numbers], minlength=parts)
    of_places = stats.chisquare(places, len(numbers) * np.array(shares))
    return min(of_places.pvalue, stats.chisquare(last).pvalue)


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_are_even(name):
    assert evenness(drawn(LIMITS[name]), LIMITS[name]) > 1e-4


@pytest.mark.parametrize("name", SKEWED)
def test_numbers_that_are_reduced_are_found_to_be_skewed(name):
    """The negative control."""
    assert evenness(reduced(LIMITS[name]), LIMITS[name]) < 1e-6


def test_every_bit_of_a_large_number_is_a_coin():
    size, draws = 1000, 4000
    raw = b"".join(number.to_bytes(size // 8, "little") for number in drawn(1 << size, draws))
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8)).reshape(draws, size)
    assert np.abs(bits.mean(axis=0) - 1 / 2).max() < 5 / 2 / np.sqrt(draws)


@given(limit=st.integers(1, 300))
def test_every_pattern_of_bits_is_its_number_or_drawn_again(limit):
    """So that each number comes of one pattern of as many."""
    size = limit.bit_length()
    patterns = np.random.default_rng(limit).permutation(1 << size).tolist()
    bits = Fixed(left=[pattern << (64 - size) | 1 for pattern in patterns])
    found = [bits.number_below(limit) for _ in range(limit)]
    assert sorted(found) == list(range(limit))
    assert found == [pattern for pattern in patterns if pattern < limit]


@given(number=st.integers(0), beyond=st.integers(1))
def test_any_number_below_any_limit_is_drawn(number, beyond):
    limit = number + beyond
    size = limit.bit_length()
    count = -(-size // 64)

    def words_of(value):
        return np.frombuffer(
            (value << (64 * count - size)).to_bytes(8 * count, "little"), dtype=np.uint64
        ).tolist()

    refused = words_of((1 << size) - 1) if limit < (1 << size) else []
    bits = Fixed(left=[*refused, *words_of(number), 77])
    assert bits.number_below(limit) == number
    assert bits.left == [77]  # no word more than are needed


def test_below_one_there_is_nothing():
    assert set(drawn(1, 100)) == {0}


@pytest.mark.parametrize("limit", [1, 2, 2**64, 2**64 + 1, 2**1000])
def test_the_systems_numbers_are_below_the_limit_too(limit):
    found = {Bits().number_below(limit) for _ in range(50)}
    assert 0 <= min(found) <= max(found) < limit
    assert len(found) == min(limit, 50)


# Weights of noise in answers ---------------------------------------------------------------------


GROUPS = Grouping(np.array([0, 1, 1, 2]))


@pytest.mark.parametrize(
    "matrix",
    [
        Identity(4),
        GROUPS,
        Dense(np.tri(4)),
        Scaled(2.5, Dense(np.tri(4))),
        Product(Dense(np.tri(3)), GROUPS),
        Kronecker([Identity(2), Dense(np.tri(2))]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_weights_of_noise_in_answers_are_rows_of_their_recovery(matrix):
    asked = np.array([[1.0, 1, 1, 0], [0, 2, 2, -1], [1, 1, 1, 1]])
    found = answer_coefficients(Dense(asked), matrix, np.array([2, 0]))
    np.testing.assert_allclose(
        found, (asked @ np.linalg.pinv(matrix.to_dense()))[[2, 0]], atol=1e-12
    )
