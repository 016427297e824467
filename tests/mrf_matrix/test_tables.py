"""Tables in papers and frames, and figures at several budgets in one call."""

from importlib.util import find_spec

import numpy as np
import pytest

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PureDP,
    expected_error,
    load_model,
    tune,
)
from mrf_matrix import PrivateNaiveBayesClassifier as NaiveBayes
from mrf_matrix.base.display import FRAMES, SHOWN, first_few, latex_table

DOMAIN = Domain.from_sizes([2, 3], n_classes=2)


def tables():
    ledger = PrivacyLedger(epsilon=1)
    ledger.charge(PureDP(0.5), "50% & more", neighboring="add_remove")
    yield ledger
    yield NaiveBayes(DOMAIN).fit([[0, 1]], [0]).privacy_report_
    yield tune(DOMAIN, epsilon=1, n_records=50, objective="error",
               space={"max_depth": [1], "n_trees": [2], "strategy": ["identity"]})  # fmt: skip


def test_every_table_is_latex_and_a_frame():
    for table in tables():
        header, rows = table.cells
        text = table.to_latex()
        assert text.count(r"\\") == len(rows) + 1
        assert text.count("&") - text.count(r"\&") == (len(rows) + 1) * (len(header) - 1)
        for library in filter(find_spec, FRAMES):
            assert list(table.to_frame(library).shape) == [len(rows), len(header)]
    assert r"50\% \& more" in next(tables()).to_latex()


def test_latex_escapes_what_it_would_read():
    text = latex_table([["a_b", r"c\d~", None, 1.23456]])
    assert r"a\_b & c\textbackslash{}d\textasciitilde{} &  & 1.235 \\" in text


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_errors_at_several_budgets_are_those_at_each(kind):
    budgets = [0.5, 1.0, 2.0]
    found = expected_error(np.eye(4), np.tri(4), epsilon=kind(budgets), delta=0)
    each = [expected_error(np.eye(4), np.tri(4), epsilon=one) for one in budgets]
    assert [one.total for one in found] == [one.total for one in each]
    with pytest.raises(ValueError, match="empty"):
        expected_error(np.eye(4), np.tri(4), epsilon=[])


def test_a_model_saves_itself(tmp_path):
    model = MatrixForestClassifier(DOMAIN, n_trees=2, max_depth=1, strategy="identity")
    model.fit([[0, 1], [1, 2]], [0, 1]).save(tmp_path / "m.mrf")
    assert load_model(tmp_path / "m.mrf").domain_ == DOMAIN


def test_lists_for_people_count_what_they_leave_out():
    for count, rest in ((SHOWN - 1, ""), (SHOWN, ""), (SHOWN + 2, " and 2 more")):
        told = first_few(["a"] * count)
        assert told == ", ".join(["a"] * min(count, SHOWN)) + rest
