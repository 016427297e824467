"""A release answers whatever its strategy determines, says its errors, and prints itself."""

from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from importlib.metadata import version
from math import inf

import numpy as np
import pytest

from mrf_matrix import Attribute, Domain
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure, reconstruct, row_variances
from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    Product,
    RowKronecker,
    RowSpaceError,
    Scaled,
    Stack,
)

SIZES = (2, 3)
RNG = np.random.default_rng(11)
PATHS = RowKronecker.from_masks([RNG.random((7, 2)) < 0.7, RNG.random((7, 3)) < 0.7])
GROUPS = Grouping([0, 1, 0, 2, 3, 2], SIZES)
STRATEGIES = {
    "identity": Identity(6, SIZES),
    "dense": Dense(RNG.normal(size=(8, 6))),
    "deficient reals": Dense(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "marginals": Marginals(SIZES, [(0,), (1,)], [0.3, 0.7]),
    "lifted": Product(Dense(RNG.normal(size=(5, 4))), GROUPS),
    "kronecker": Kronecker([Dense(RNG.random((3, 2))), Dense(RNG.random((4, 3)))]),
    "stack": Stack([Scaled(0.4, Identity(6, SIZES)), Scaled(0.6, PATHS)]),
}
DOMAIN = Domain(
    [Attribute("a<b>", size=2), Attribute("c", size=3)], Attribute("y & z", categories=["n", "p"])
)


def counts(sizes=SIZES, n=200):
    codes = np.stack([RNG.integers(0, size, n) for size in sizes], axis=1)
    return count_cells(codes, RNG.integers(0, 2, n), sizes, 2)


def released(strategy=PATHS, budget=None, **options):
    options = {"noise": "research", "random_state": 0, **options}
    return measure(strategy, counts(), budget or PureDP(1), **options)


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1)])
@pytest.mark.parametrize("name", STRATEGIES)
def test_row_variances_are_those_of_the_pseudo_inverse(name, budget):
    strategy = STRATEGIES[name]
    release = released(strategy, budget)
    workload = RNG.normal(size=(5, strategy.shape[0])) @ strategy.to_dense()
    recovery = release.mechanism.rounded.recovery.to_dense()
    squares = ((workload @ np.linalg.pinv(recovery, rcond=1e-9)) ** 2).sum(axis=1)
    assert row_variances(release, workload) == pytest.approx(release.variance * squares, rel=1e-5)


def test_row_variances_agree_with_simulation():
    data, workload = counts(), PATHS.to_dense()
    plain = measure(STRATEGIES["stack"], data, PureDP(inf))
    noisy = measure(STRATEGIES["stack"], data, PureDP(0.5), noise="research", random_state=0)
    draws = noisy.law.research((len(noisy.answers), 2 * 2_500), RNG)
    many = replace(noisy, answers=np.tile(plain.answers, 2_500) + draws)
    errors = (
        (reconstruct(many, workload) - np.tile(reconstruct(plain, workload), 2_500)) ** 2
    ).mean(axis=1)
    assert errors == pytest.approx(row_variances(noisy, workload), rel=0.12)


def test_without_noise_there_is_no_error_but_still_a_row_space():
    release = measure(STRATEGIES["marginals"], counts(), PureDP(inf))
    assert not row_variances(release, [[1, 1, 1, 0, 0, 0]]).any()
    with pytest.raises(RowSpaceError):
        row_variances(release, np.eye(6))


@pytest.mark.parametrize("name", ["deficient reals", "marginals", "lifted"])
def test_both_name_the_rows_that_have_no_answer(name):
    strategy = STRATEGIES[name]
    workload = np.ones((4, strategy.shape[0])) @ strategy.to_dense()
    workload[2] += np.linalg.svd(strategy.to_dense())[2][-1]
    for question in (reconstruct, row_variances):
        with pytest.raises(RowSpaceError, match=r"1 of the workload's 4 rows \(rows 2\)"):
            question(released(strategy), workload)


def test_rows_are_named_where_the_domain_is_out_of_reach():
    sizes = (4,) * 40
    data = counts(sizes)
    inside = RowKronecker.from_masks([np.eye(4)] + [np.ones((4, 4))] * 39)
    outside = RowKronecker.from_masks([np.ones((2, 4)), np.eye(4)[:2]] + [np.ones((2, 4))] * 38)
    workload = Stack([inside, outside])
    for strategy in (Marginals(sizes, [(0,)], [1]), inside):
        release = measure(strategy, data, PureDP(1), noise="research", random_state=0)
        assert reconstruct(release, inside).shape == (4, 2)
        for question in (reconstruct, row_variances):
            with pytest.raises(RowSpaceError, match=r"rows 4, 5\)"):
                question(release, workload)


def test_a_faint_row_outside_is_named_beside_large_ones():
    strategy = STRATEGIES["lifted"]
    workload = np.ones((4, strategy.shape[0])) @ strategy.to_dense()
    workload[2] = 1e-8 * np.linalg.svd(strategy.to_dense())[2][-1]
    for question in (reconstruct, row_variances):
        with pytest.raises(RowSpaceError, match=r"1 of the workload's 4 rows \(rows 2\)"):
            question(released(strategy), workload)


def wide_paths(number, depth, seed=0):
    """Return paths over 123 attributes of two codes, each of which fixes some of them."""
    generator = np.random.default_rng(seed)
    masks = np.ones((123, number, 2), dtype=bool)
    for row in range(number):
        chosen = generator.choice(123, depth, replace=False)
        masks[chosen, row, generator.integers(0, 2, depth)] = False
    return RowKronecker.from_masks(list(masks))


@pytest.mark.parametrize("depth", [3, 12])
def test_marginals_totals_and_paths_over_123_attributes(depth):
    """Measured together, asked together: 2**123 cells, 311 rows."""
    sizes = (2,) * 123
    codes = (RNG.random((300, 123)) < 0.3).astype(int)
    labels = RNG.integers(0, 2, 300)
    data = count_cells(codes, labels, sizes, 2)
    one_way = Marginals(sizes, [(i,) for i in range(123)], [1] * 123)
    total = RowKronecker.from_masks([np.ones((1, 2))] * 123)
    paths = wide_paths(64, depth)
    strategy, asked = Stack([one_way, total, paths]), Stack([paths, total, one_way])
    counted = np.stack(
        [asked.columns(codes[labels == label]).sum(axis=1) for label in (0, 1)], axis=1
    )
    plain = measure(strategy, data, PureDP(inf))
    assert np.array_equal(reconstruct(plain, asked), counted)
    noisy = measure(strategy, data, ZCDP(0.5), noise="research", random_state=0)
    draws = noisy.law.research((311, 2 * 1000), np.random.default_rng(1))
    many = replace(noisy, answers=np.tile(plain.answers, 1000) + draws)
    errors = ((reconstruct(many, asked) - np.tile(counted, 1000)) ** 2).mean(axis=1)
    assert errors == pytest.approx(row_variances(noisy, asked), rel=0.2)
    assert row_variances(noisy, total) == pytest.approx([noisy.variance / (1 + 123 / 2)])
    with pytest.raises(RowSpaceError, match=r"rows 64, 65"):
        reconstruct(noisy, Stack([paths, wide_paths(2, depth, seed=1)]))


def test_questions_that_are_none_are_refused():
    with pytest.raises(TypeError, match="Gram"):
        row_variances(released(), Gram(np.eye(6)))
    for question in (reconstruct, row_variances):
        with pytest.raises(ValueError, match="columns"):
            question(released(), np.eye(5))


def test_a_record_says_program_day_and_sampler():
    today = released().measured
    assert today.version == version("mrf-matrix")
    assert today.sampler == f"numpy {np.__version__}"
    assert released(noise="exact", random_state=None).measured.sampler.startswith("opendp ")
    assert released(budget=PureDP(inf)).measured.sampler == "nothing"
    assert type(today.measured_on) is date


@pytest.mark.parametrize("bad", [{"version": ""}, {"sampler": "x\x1b"}, {"version": "x" * 999}])
def test_a_record_holds_lines_only(bad):
    with pytest.raises(ValueError, match="line"):
        replace(released().measured, **bad)
    with pytest.raises(TypeError, match="date"):
        replace(released().measured, measured_on="2026-11-21")


def test_a_sampler_draws_its_own_kind_of_noise_only():
    kinds = {"exact": "opendp 0.16.0", "research": "NumPy 2.3", "none": "nothing"}
    known = released().measured
    for noise in kinds:
        for kind, sampler in kinds.items():
            named = replace(known, sampler=sampler)
            if noise == kind:
                named.check_noise(noise)
            else:
                with pytest.raises(ValueError, match=f"noise='{noise}': expected '"):
                    named.check_noise(noise)
    replace(known, sampler="numpyro 1").check_noise("exact")  # unknown: the writer's word
    with pytest.raises(ValueError, match="noise by 'numpy 2', which draws 'research' noise"):
        replace(released(noise="exact", random_state=None),
                measured=replace(known, sampler="numpy 2"))  # fmt: skip


def test_a_domain_must_be_the_one_that_was_measured():
    assert replace(released(), domain=DOMAIN).domain is DOMAIN
    assert replace(released(), domain=Domain.from_sizes(SIZES)).domain.target is None
    with pytest.raises(ValueError, match="attributes of sizes"):
        replace(released(), domain=Domain.from_sizes([3, 2]))
    with pytest.raises(ValueError, match="3 classes: expected 2"):
        replace(released(), domain=Domain.from_sizes(SIZES, 3))


class Table(HTMLParser):
    """Collects tags and text."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs).get("scope")))

    def handle_data(self, data):
        self.texts.append(data)


def test_text_and_table_show_the_same_and_escape_it():
    release = replace(released(budget=ZCDP(0.25)), domain=DOMAIN)
    text, html = str(release), release._repr_html_()
    table = Table()
    table.feed(html)
    kinds = {tag for tag, _ in table.tags}
    assert kinds == {"table", "caption", "tbody", "tr", "th", "td"}
    assert ("th", "row") in table.tags
    assert ("th", None) not in table.tags
    assert table.texts[0] == release.statement == text.splitlines()[0]
    for shown in ("NOT A PRIVATE RELEASE", "ZCDP(rho=0.25)", "add_remove", "L2", "given"):
        assert shown in text
        assert shown in html
    assert "a<b>, c" in table.texts
    assert "y & z" in table.texts
    assert str(release.measured) in table.texts
    assert "a<b>" not in html


def test_huge_and_long_domains_print_shortly():
    sizes = (4,) * 40
    release = measure(Marginals(sizes, [(0,)], [1]), counts(sizes), PureDP(inf))
    assert "about 2^80 cells" in str(release)
    assert "4, 4 and 28 more" in str(release)
    assert "unknown" in str(replace(release, measured=None))
    assert "Release(4 x 2 answers" in repr(release)
