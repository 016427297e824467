"""Tables of a comparison for people."""

from collections.abc import Iterator

from rich.table import Table

from mrf_matrix.cli.screen import table
from mrf_matrix.estimators import Comparison


def strategy_table(study: Comparison) -> Table:
    """List the strategies of the first forest with their expected errors."""
    made = table(
        "Strategies for the training workload (first forest; computed without data)",
        "strategy",
        "sensitivity",
        "loss",
        "loss / bound",
        *(f"rms per leaf, ε={epsilon:g}" for epsilon in study.epsilons),
    )
    for row in study.strategies:
        made.add_row(
            row.name,
            f"{row.sensitivity:.4g}",
            f"{row.loss:,.0f}",
            f"{row.certified_ratio:.3g}",
            *(f"{row.rms_per_leaf[epsilon]:.3g}" for epsilon in study.epsilons),
        )
    bound = max(row.lower_bound for row in study.strategies)
    made.caption = (
        f"loss = ‖A‖² ‖W A⁺‖²_F; certified lower bound of every strategy: {bound:,.0f}. "
        f"rms in records per leaf and class."
    )
    return made


def accuracy_table(study: Comparison) -> Table:
    """List every method's mean test accuracy at every ε, with its standard error."""
    settings = study.settings
    made = table(
        f"Test accuracy on {study.dataset} (mean ± standard error over "
        f"{settings['n_splits']} splits and {settings['n_draws']} noise draws each)",
        "method",
        "what it is",
        *(f"ε={epsilon:g}" for epsilon in study.epsilons),
        numbers_from=2,
    )
    for method in study.methods:
        points = [
            study.summary(method.key, epsilon if method.spends else None)
            for epsilon in study.epsilons
        ]
        made.add_row(
            method.label,
            method.privacy(settings["noise"]),
            *(f"{point.mean:.3f} ± {point.standard_error:.3f}" for point in points),
        )
    return made


def notes(study: Comparison) -> Iterator[str]:
    """Say what is private, what is research noise, and what is noise-free."""
    settings = study.settings
    yield (
        f"Neighbouring relation: {settings['neighboring']}. Every fit spends its own ε; the "
        f"domain, the forests and the strategies are public."
    )
    if settings["noise"] == "research":
        yield (
            "Noise: research noise (seedable, floating point). These figures study public data; "
            "none of these fits is a private release. Use --noise exact for release-grade noise."
        )
    else:
        yield "Noise: exact discrete noise; each private fit is a release of its own ε."
