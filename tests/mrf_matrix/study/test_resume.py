"""Interrupted studies and searches: what was found is told, and the rest is done later."""

import pytest

from mrf_matrix import Domain, compare, load_dataset, tune

STUDY = {"epsilons": [1.0], "n_trees": 2, "max_depth": 1, "n_splits": 2, "n_draws": 2,
         "strategy": "identity", "kind": ["matrix", "naive_bayes", "majority"]}  # fmt: skip
SEARCH = {"epsilon": 1, "n_records": 400, "time_limit": 0.2, "random_state": 0,
          "space": {"max_depth": [1, 2], "n_trees": [4, 8], "strategy": ["identity"]}}  # fmt: skip
DOMAIN = Domain.from_sizes([3, 2, 2], n_classes=2)


def interrupt_after(steps, seen=None):
    left = iter(range(steps))

    def progress(what, done, total):
        if seen is not None:
            seen.append(what)
        if next(left, None) is None:
            raise KeyboardInterrupt

    return progress


def test_a_study_goes_on_where_it_stopped(tmp_path):
    data, file = load_dataset("monks_1"), tmp_path / "fits.json"
    whole = compare(data, **STUDY)
    part = compare(data, resume=file, progress=interrupt_after(4), **STUDY)
    assert part.unfinished > 0
    assert 0 < len(part.scores) < len(whole.scores)
    assert part.to_dict()["unfinished"] == part.unfinished
    stored = file.read_text()
    again = compare(data, resume=file, **STUDY)
    assert again.scores == whole.scores
    assert again.unfinished == 0
    assert stored != file.read_text()
    with pytest.raises(ValueError, match="another study"):
        compare(data, resume=file, **{**STUDY, "n_draws": 3})
    file.write_text("[]")
    with pytest.raises(ValueError, match="no file of fits"):
        compare(data, resume=file, **STUDY)


def test_fits_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    data, file = load_dataset("monks_1"), tmp_path / "fits.json"
    compare(data, resume=file, **STUDY)
    monkeypatch.setattr("mrf_matrix.study.splits._figures", lambda *_: pytest.fail("a fit"))
    assert compare(data, resume=file, **STUDY).unfinished == 0


def test_an_interrupt_before_anything_is_found_stays_one():
    with pytest.raises(KeyboardInterrupt):
        compare(load_dataset("monks_1"), progress=interrupt_after(0), **STUDY)


def test_a_search_ends_in_the_best_so_far_and_goes_on(tmp_path):
    file = tmp_path / "trials.json"
    whole = tune(DOMAIN, **SEARCH)
    part = tune(DOMAIN, resume=file, progress=interrupt_after(2), **SEARCH)
    assert part.stopped
    assert part.best.value < float("inf")
    assert "interrupted" in part.stopped[0].note
    again = tune(DOMAIN, resume=file, **SEARCH)
    assert not again.stopped
    assert [t.value for t in again.trials] == [t.value for t in whole.trials]
