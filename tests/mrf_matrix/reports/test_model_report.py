"""The page of a model: what it says is true, and nothing that a name holds acts in it."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from math import exp, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix import (
    ZCDP,
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    load_model,
    save_model,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ReleasedClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.reports import ReportPage, Section, domain_hash, ledger_report, model_report
from mrf_matrix.reports.model_page import odds, report_facts
from mrf_matrix.reports.model_sections import (
    AGREEMENT_TITLE,
    BESIDE,
    agreement_section,
    noise_rms,
    shares_section,
)
from mrf_matrix.reports.page import NOTHING_LOADED, budget_bar
from mrf_matrix.reports.privacy_report import PUBLIC_NUMBER, stated_budget
from mrf_matrix.study import evaluate

RNG = np.random.default_rng(0)
X = RNG.integers(0, 3, (400, 4))
Y = (X[:, 0] + X[:, 1] > 2).astype(int)
DOMAIN = Domain.from_sizes([3] * 4, n_classes=2)
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>&amp;'


class Tags(HTMLParser):
    """What a browser would build of a page: its tags, their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def fitted(kind, **more):
    return kind(DOMAIN, epsilon=1, **more).fit(X, Y)


MODELS = {
    "matrix": lambda: fitted(MatrixForestClassifier, n_trees=4, max_depth=2, strategy="identity"),
    "tables": lambda: fitted(PosteriorForestClassifier),
    "additive": lambda: fitted(ResidualForestClassifier, n_records=400),
    "auto": lambda: fitted(PrivateForestClassifier, n_records=400),
    "labels": lambda: fitted(LabelTreeClassifier, n_records=400),
    "pool": lambda: fitted(PooledForestClassifier, n_records=400),
    "naive Bayes": lambda: fitted(PrivateNaiveBayesClassifier),
    "multinomial": lambda: fitted(MultinomialForestClassifier, n_trees=2, max_depth=2),
    "zCDP": lambda: PosteriorForestClassifier(DOMAIN, rho=0.1).fit(X, Y),
    "delta": lambda: fitted(PosteriorForestClassifier, delta=1e-6),
    "Gaussian by delta": lambda: fitted(PosteriorForestClassifier, delta=0.3),
    "research": lambda: fitted(PosteriorForestClassifier, noise="research", noise_state=0),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_every_kind_has_a_page_that_loads_nothing(model):
    page = model.report_
    found = Tags(page.to_html())
    assert page.is_private == (getattr(model, "noise", "exact") == "exact")
    assert {"What was public", "What is not promised"} <= {one.title for one in page.sections}
    assert not {"script", "img", "link", "iframe", "object"} & set(found.tags)
    assert not {"src", "href"} & {name for name, _ in found.attributes}
    assert "url(" not in page.to_html()
    assert ("content", NOTHING_LOADED) in found.attributes
    assert domain_hash(model.domain_) in found.text
    assert " of scale " not in page.statement  # records, never scaled integers
    assert page.statement in str(page)


def test_answers_to_queries_have_a_page_too():
    model = BatchPredictionClassifier(DOMAIN, epsilon=1, n_trees=2, max_depth=1).fit(X, Y)
    model.predict(X[:5])
    assert "vote is off by" in model.report_._repr_html_()


def test_hostile_names_are_text():
    domain = Domain(
        [Attribute(HOSTILE, categories=[HOSTILE, "b"]), Attribute("x", edges=[0, 1, 2])],
        target=Attribute(f"y {HOSTILE}", categories=["no", HOSTILE]),
    )
    rows = [(HOSTILE, 0.5), ("b", 1.5)] * 100
    model = PosteriorForestClassifier(domain, epsilon=1).fit(rows, ["no", HOSTILE] * 100)
    ledger = PrivacyLedger(epsilon=2)
    ledger.charge(model.release_.budget, HOSTILE, neighboring="add_remove")
    record = evaluate(model, rows, ["no", HOSTILE] * 100, epsilon=1).to_dict()
    record["figures"][HOSTILE] = {"value": 1.0}
    for page in (model_report(model, ledger=ledger, evaluation=record), ledger_report(ledger)):
        found = Tags(page.to_html())
        assert found.text.count(HOSTILE) >= 2
        assert not {"script", "img"} & set(found.tags)
        assert not [name for name, _ in found.attributes if name.startswith("on")]


@pytest.mark.parametrize("key", ["tables", "zCDP", "delta", "naive Bayes"])
def test_noise_is_said_in_records(key):
    model = MODELS[key]()
    release = model.release_ if hasattr(model, "release_") else model.releases_[0]
    one = model.privacy_report_.measurements[0]
    unit = release.sensitivity / one.sensitivity * float(release.scale)
    drawn = sqrt(release.variance) / unit
    assert drawn <= noise_rms(one) * (1 + 1e-9)
    assert noise_rms(one) == pytest.approx(drawn, rel=0.08)


def test_bins_of_dates_and_numbers_are_told_from_end_to_end():
    dates, numbers = ["2020-01-01", "2021-01-01", "2022-01-01"], [0, 2.5]
    domain = Domain(
        [Attribute("admitted", edges=dates), Attribute("dose", edges=numbers)],
        target=Attribute("y", size=2),
    )
    model = PosteriorForestClassifier(domain).fit(
        [["2020-02-01", 1.0], ["2021-02-01", 2.0]], [0, 1]
    )
    page = model_report(model).to_html()
    assert "2 bins from 2020-01-01 to 2022-01-01" in page
    assert "1 bins from 0 to 2.5" in page


TELLING = {
    "matrix": lambda **n: fitted(
        MatrixForestClassifier, n_trees=2, max_depth=1, strategy="identity", **n
    ),
    "tables": lambda **n: fitted(PosteriorForestClassifier, **n),
    "additive": lambda **n: fitted(ResidualForestClassifier, **n),
    "auto": lambda **n: fitted(PrivateForestClassifier, **n),
    "labels": lambda **n: fitted(LabelTreeClassifier, **n),
    "pool": lambda **n: fitted(PooledForestClassifier, **n),
}


@pytest.mark.parametrize("key", TELLING)
def test_a_public_number_of_records_is_not_said_to_be_protected(key, tmp_path):
    model = TELLING[key](n_records=400)
    save_model(model, tmp_path / "m.mrf")
    read = load_model(tmp_path / "m.mrf")
    assert read.privacy_report_.public == model.privacy_report_.public
    for one in (model, read):
        page = str(model_report(one))
        assert f"Taken for public: the domain and the classes; {PUBLIC_NUMBER};" in page
        assert one.privacy_report_.public.count(PUBLIC_NUMBER) == 1
        assert "was stated as public before the fit, and is not protected" in page
        assert "and how many rows there were." not in page
        assert "whether a row was in it at all" in page


@pytest.mark.parametrize("key", TELLING)
def test_a_number_of_records_that_was_not_told_is_protected(key):
    page = str(model_report(TELLING[key]()))
    assert "everything that the row said, and how many rows there were." in page
    assert PUBLIC_NUMBER not in page.split("Taken for public")[1].split("\n")[0]


def test_where_records_are_replaced_their_number_is_not_protected_either_way():
    for more in ({}, {"n_records": 400}):
        page = str(fitted(PosteriorForestClassifier, neighboring="replace_one", **more).report_)
        assert "what the row said; how many rows there were is not." in page


def test_the_odds_are_those_of_the_claim():
    pure = fitted(PosteriorForestClassifier).privacy_report_
    assert f"at most {exp(1):.3g} (e to the power ε = 1)" in odds(pure.claim)
    assert "73.11 %" in odds(pure.claim)
    approximate = MODELS["Gaussian by delta"]().privacy_report_
    assert isinstance(stated_budget(approximate.budget), ZCDP)
    assert "(ε = 1 at δ = 0.3)" in odds(approximate.claim)  # the claim, not the ρ behind it


def chances_said(report):
    return [float(one) / 100 for one in re.findall(r"at most ([0-9.]+) %", odds(report.claim))]


def chance_of_a_right_guess(law, one, other):
    """Of the likelier of two sums, from the law of the noise itself."""
    support = np.arange(-400, 401)
    return float(np.maximum(law(support - one), law(support - other)).sum() / 2)


@pytest.mark.parametrize("key", ["tables", "zCDP", "delta", "Gaussian by delta"])
def test_nobody_guesses_better_than_the_page_says(key):
    """One count of 1 more or less, and two counts, of which a record is in the one or the other."""
    report = MODELS[key]().privacy_report_
    budget = stated_budget(report.budget)
    amount, power = float(budget.exact), 2 if isinstance(budget, ZCDP) else 1
    whole = np.exp(-amount * np.abs(np.arange(-400.0, 401)) ** power).sum()

    def law(z):
        return np.exp(-amount * np.abs(z.astype(float)) ** power) / whole

    there, said = chances_said(report)
    assert chance_of_a_right_guess(law, 0, 1) <= there
    first, second = law(np.arange(-60, 61)), law(np.arange(-60, 61) - 1)
    in_one, in_other = np.outer(second, first), np.outer(first, second)
    between = float(np.maximum(in_one, in_other).sum() / 2)
    assert between <= said
    if key == "tables":  # the odds between two things do reach twice ε
        assert np.max(in_one / in_other) == pytest.approx(exp(2))


def test_odds_between_things_said_are_one_step_apart_where_records_are_replaced():
    model = fitted(PosteriorForestClassifier, neighboring="replace_one")
    assert chances_said(model.privacy_report_) == [pytest.approx(1 / (1 + exp(-1)), rel=1e-3)]


def test_no_claim_is_put_into_words_where_there_is_none():
    page = MODELS["research"]().report_
    assert "odds" not in str(page.sections[0])
    assert "chance" not in str(page.sections[0])
    assert "claim denied" in page.to_html()


def test_shares_of_the_budget_add_up():
    report = MODELS["additive"]().privacy_report_
    (bar,) = shares_section(report, report_facts(report)).pictures
    whole, *widths = [float(v) for n, v in Tags(bar).attributes if n == "width"]
    parts = [width for width in widths if width not in (12, whole - 2)]
    assert 1 < len(parts) <= 6 < len(report.measurements)
    assert sum(parts) == pytest.approx(whole - 2, abs=0.05)


def test_a_report_of_many_steps_fits_on_a_screen_and_leaves_none_out():
    wide = Domain.from_sizes([3] * 16, n_classes=2)
    model = ResidualForestClassifier(
        wide, epsilon=2, n_records=20_000, noise="research", noise_state=0
    )
    report = model.fit(np.tile(X, 4), Y).privacy_report_
    lines = [line for line in str(report).splitlines() if line.startswith("  measured")]
    assert len(str(report).splitlines()) <= 24 < len(report.measurements) / 2
    several = [int(one) for one in re.findall(r", in (\d+) measurements", "\n".join(lines))]
    assert sum(several) + len(lines) - len(several) == len(report.measurements)
    answers = [int(re.search(r": (\d+) (?:noisy integers|choices?) of", one)[1]) for one in lines]
    assert sum(answers) == report.n_answers


def test_many_parts_of_a_bar_become_six():
    bar = budget_bar([(f"part {i}", 0.05) for i in range(10)], left=0.5)
    assert "25 %  5 more" in bar
    assert "50 %  left" in bar
    assert bar.count('fill="#') == 2 * 7


def test_a_file_says_whose_word_it_is(tmp_path):
    save_model(MODELS["auto"](), tmp_path / "m.mrf")
    page = model_report(load_model(tmp_path / "m.mrf"), model_hash="ab" * 32)
    assert "word of whoever wrote the file" in str(page)
    assert "ab" * 32 in str(page)
    assert page.title.startswith("Privacy report: PrivateForestClassifier")


def test_a_page_is_shown_escaped_and_printed_plainly():
    page = ReportPage("a < b", "c & d", False, (Section("e", rows=(("f\x1b[31m", "<g>"),)),))
    assert "a &lt; b" in page.to_html()
    assert "\x1b" not in page.to_html()
    assert "a < b" in str(page)


@pytest.mark.parametrize(
    "asked",
    [{"epsilon": 1}, {"rho": 0.5}, {"epsilon": 0.01, "delta": 0.01, "neighboring": "replace_one"},
     {"epsilon": 1, "noise": "research", "noise_state": 0}, {"epsilon": np.inf}],
    ids=str,
)  # fmt: skip
def test_the_claim_of_an_evaluation_is_what_its_record_gives(asked):
    model = MODELS["tables"]()
    record = evaluate(model, X, Y, **asked).to_dict()
    assert record["statement"] in str(model_report(model, evaluation=record))
    if record["is_private"]:
        stronger = re.sub(r"(epsilon|rho)=[0-9./]+", r"\1=1/1000", record["statement"])
        lies = {"statement": stronger}, {"noise_scale": 0.001}, {"neighboring": "near"}
        for lie in (*lies, {"budget": "PureDP(epsilon=7)"}):
            with pytest.raises(ValueError, match=r"evaluation|neighboring"):
                model_report(model, evaluation=record | lie)


# Where shares disagree with counts ---------------------------------------------------------------


SIZES, NO_NOISE = (6, 4, 3), float("inf")
RATES = np.array([0.01, 0.02, 0.03, 0.05, 0.1, 0.3])


def records(n, n_classes=2, seed=0):
    """Attributes that repeat each other; the first tells of the class."""
    draw = np.random.default_rng(seed)
    first = draw.integers(0, 6, n)
    second = (first + draw.integers(0, 3, n)) % 4
    y = (draw.random(n) < RATES[first]).astype(int)
    y[draw.random(n) < 0.2] = n_classes - 1
    return np.column_stack([first, second, draw.integers(0, 3, n)]), y


def fitted_to(X, y, epsilon, n_classes=2, kind=ResidualForestClassifier, seed=0):
    domain = Domain.from_sizes(SIZES, n_classes=n_classes)
    given = {"n_records": len(y), "noise": "research", "noise_state": seed, "random_state": seed}
    return kind(domain, epsilon=epsilon, **given).fit(X, y)


def mean_by_code(values, codes):
    return np.bincount(codes, values) / np.bincount(codes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_are_those_of_the_records_where_there_is_no_noise(n_classes):
    X, y = records(40_000, n_classes)
    model = fitted_to(X, y, NO_NOISE, n_classes)
    shares, columns = model.predict_proba(X), model.posterior_.columns
    for label, column in zip(range(n_classes)[-len(columns) :], columns, strict=True):
        for codes, one in zip(X.T, column.code_shares, strict=True):
            assert_allclose(one.counted, mean_by_code(y == label, codes), atol=0.002)
            assert_allclose(one.model_shares, mean_by_code(shares[:, label], codes), atol=0.005)


def test_noise_alone_is_no_disagreement():
    X, y = records(40_000)
    found = [
        agreement_section(m, m.domain_) for m in (fitted_to(X, y, 1, seed=s) for s in range(5))
    ]
    assert sum("more than noise" in row for one in found for row in one.rows) <= 1
    assert any("None of 13 shares differs by more than noise" in str(one) for one in found)


def test_a_share_that_differs_is_named():
    """The control: the model's share of one code is taken to be a tenth too small."""
    X, y = records(40_000)
    model = fitted_to(X, y, 1)
    (column,) = model.posterior_.columns
    wrong, *others = column.code_shares
    lacking = wrong.lacking + 0.1 * (np.arange(6) == 5)
    shares = (replace(wrong, lacking=lacking), *others)
    odd = replace(model.posterior_, columns=(replace(column, code_shares=shares),))
    model.model_ = replace(model.model_, posterior=odd)
    found = agreement_section(model, model.domain_)
    assert "1 of 13 shares differ by more than noise" in str(found)
    assert found.rows[0][:3] == ("x0", "5", "1")
    assert "more than noise" in found.rows[0]


def test_a_model_from_a_file_has_the_same_page(tmp_path):
    X, y = records(5_000)
    model = fitted_to(X, y, NO_NOISE)
    save_model(model, tmp_path / "one.mrf", allow_nonprivate=True)
    page, again = model_report(model), model_report(load_model(tmp_path / "one.mrf"))
    of = {one.title: one for one in page.sections}[AGREEMENT_TITLE]
    assert {one.title: one for one in again.sections}[AGREEMENT_TITLE] == of
    assert len(of.rows) == 12


def test_tables_beside_a_tree_are_compared_by_themselves():
    X, y = records(5_000)
    domain = Domain.from_sizes(SIZES, n_classes=2)
    noise = {"noise": "research", "noise_state": 0, "random_state": 0, "n_records": 5000}
    pool = PooledForestClassifier(domain, epsilon=2, beside="additive", **noise).fit(X, y)
    found = agreement_section(pool, pool.domain_)
    assert BESIDE in found.words
    alone = replace(pool.model_, posterior=pool.posterior_.tables)
    assert found.rows == agreement_section(ReleasedClassifier(alone), pool.domain_).rows


def test_kinds_without_such_tables_say_nothing():
    X, y = records(500)
    tables = fitted_to(X, y, 1, kind=PosteriorForestClassifier)
    one_pass = fitted_to(X, y, 0.01)
    for model in (tables, one_pass):
        assert AGREEMENT_TITLE not in {one.title for one in model_report(model).sections}
