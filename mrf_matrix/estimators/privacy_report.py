"""What a fitted estimator may say of its privacy: every figure computed, every mode labelled."""

from dataclasses import asdict, dataclass
from html import escape
from math import sqrt
from typing import Any

from mrf_matrix.estimators.allocation import Training
from mrf_matrix.mechanisms import Release

MEASURED = {
    "matrix": "cells of the domain",
    "per_tree": "every leaf of every tree",
    "disjoint": "every leaf, each record in one tree",
}


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy statement of one release.

    Attributes
    ----------
    statement : str
        What is claimed, in one sentence; it says so when nothing is protected.
    budget : str
        What was spent.
    neighboring : str
        The neighbouring relation under which the claim holds.
    noise : {"exact", "research", "none"}
        Only "exact" noise makes a private release.
    law : str
        Law of the noise on one measured answer, in units of the integer answers.
    sensitivity : int
        Exact sensitivity of the integer answers under add/remove; its square for Gaussian noise.
    n_answers : int
        Noisy integers released: answers x classes.
    measured : str
        What was measured, and by which strategy family.
    expected_rms_per_leaf : float
        Root-mean-square error of one leaf value due to noise, in records.
    public : tuple of str
        What the claim takes for public.
    """

    statement: str
    budget: str
    neighboring: str
    noise: str
    law: str
    sensitivity: int
    n_answers: int
    measured: str
    expected_rms_per_leaf: float
    public: tuple[str, ...] = (
        "the domain and the classes",
        "the forest's structure",
        "the strategy",
        "the neighbouring relation and the budget",
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return asdict(self) | {"public": list(self.public)}

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.statement, *(f"  {name:<{width}}  {text}" for name, text in rows)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self._rows()
        )
        return f"<p><b>{escape(self.statement)}</b></p><table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("budget spent", self.budget),
            ("neighbouring relation", self.neighboring),
            ("noise", f"{self.noise}: {self.law}"),
            ("measured", f"{self.measured}, {self.n_answers} noisy integers"),
            ("sensitivity", f"{self.sensitivity}"),
            ("expected error", f"{self.expected_rms_per_leaf:.4g} records rms per leaf and class"),
            ("taken for public", "; ".join(self.public)),
        ]


def training_report(training: Training, release: Release) -> PrivacyReport:
    """Return the report of a training release; every figure comes from the release itself."""
    strategy = training.strategy
    family = f" by strategy {strategy.method!r}" if strategy else ""
    return PrivacyReport(
        statement=release.statement,
        budget=repr(release.budget),
        neighboring=release.neighboring,
        noise=release.noise,
        law=str(release.law),
        sensitivity=release.sensitivity,
        n_answers=release.answers.size,
        measured=MEASURED[training.allocation] + family,
        expected_rms_per_leaf=expected_rms_per_leaf(training),
    )


def expected_rms_per_leaf(training: Training) -> float:
    """Return the root-mean-square error of one leaf value, in records, known without data."""
    mechanism = training.mechanism
    if training.strategy is None:
        return sqrt(mechanism.law.variance) / float(mechanism.rounded.scale)
    real = training.strategy.loss / training.strategy.sensitivity**2
    scaled = mechanism.law.variance / float(mechanism.rounded.scale) ** 2
    return sqrt(scaled * real / training.forest.n_leaves)
