"""Posterior forest and naive Bayes on data sets that were not looked at while it was made.

Run with ``python tests/benchmarks/test_held_out.py [DATASET ...]``: it prints the table
in Markdown, and where which one is ahead; docs/posterior.md has its means. Four splits of two draws
of research noise; the data sets are described in `rival_held_out`.
"""

import sys

import numpy as np
import pytest
from rival_held_out import NAMES, load_held_out
from rival_methods import OURS, WITHOUT_PRIVACY
from rival_runs import measured
from rival_tables import BUDGETS, majority, means, shown

SPLITS, DRAWS = 4, 2
METHODS = ("posterior forest", "private naive Bayes")


def study(name: str, splits: int = SPLITS) -> dict[str, dict]:
    """Return the summaries of the majority class and both methods by ε."""
    data = load_held_out(name)
    prior = WITHOUT_PRIVACY["majority class"]
    found = {"majority class": measured(data, prior, splits, 1, private=False)}
    return found | {m: measured(data, OURS[m], splits, DRAWS, private=True) for m in METHODS}


def markdown(kept: dict[str, dict]) -> str:
    """Return the table of mean accuracies at the four budgets."""
    lines = [
        "| data (majority) | records | attributes, classes | posterior forest | ± | naive Bayes |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in kept.items():
        data = load_held_out(name)
        error = max(found["posterior forest"][budget]["se"] or np.nan for budget in BUDGETS)
        cells = [
            f"{NAMES[name]} ({shown([majority(found)])})",
            f"{len(data.labels)}",
            f"{data.domain.n_attributes}, {data.domain.n_classes}",
            shown(means(found, ("posterior forest",))),
            f"{error:.3f}",
            shown(means(found, ("private naive Bayes",))),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def who_is_ahead(kept: dict[str, dict]) -> str:
    """Return averages, and by how many points which method is ahead where, at every ε."""
    ours, theirs = (np.array([means(f, (m,)) for f in kept.values()]) for m in METHODS)
    priors = np.array([majority(found) for found in kept.values()])
    lines = [
        f"averages: posterior forest {shown(ours.mean(axis=0))}, "
        f"naive Bayes {shown(theirs.mean(axis=0))}"
    ]
    for i, epsilon in enumerate(BUDGETS):
        points = 100 * (ours - theirs)[:, i]
        leads = ", ".join(
            f"{NAMES[name]} {lead:+.1f}" for name, lead in zip(kept, points, strict=True)
        )
        below = ", ".join(
            f"{NAMES[name]} {gap:.1f}"
            for name, gap in zip(kept, 100 * (priors - ours[:, i]), strict=True)
            if gap >= 0.05
        )
        lines.append(
            f"ε = {epsilon}: ahead of naive Bayes on {np.sum(points > 0)} of {len(kept)} "
            f"({leads}); points below the majority class: {below or 'nowhere'}"
        )
    return "\n".join(lines)


@pytest.mark.usefixtures("shared_dir")
def test_codes_lie_in_the_domains():
    for name in NAMES:
        data = load_held_out(name)
        assert (data.codes >= 0).all()
        assert (data.codes.max(axis=0) < data.domain.sizes).all()
        assert (np.bincount(data.labels) > 0).sum() == data.domain.n_classes
    assert load_held_out("zoo").domain.n_attributes == 16  # the animals' names are left out


@pytest.mark.usefixtures("shared_dir")
@pytest.mark.parametrize("name", NAMES)
def test_held_out(benchmark, name):
    found = benchmark.pedantic(study, args=(name, 2), rounds=1)
    print("\n" + markdown({name: found}))
    ours = means(found, ("posterior forest",))
    assert ours[-1] > majority(found) - 0.05  # a budget of 2 is enough on all of them
    assert ours[-1] > ours[0] - 0.05


def main() -> None:
    kept = {name: study(name) for name in sys.argv[1:] or NAMES}
    print(markdown(kept), who_is_ahead(kept), sep="\n\n")


if __name__ == "__main__":
    main()
