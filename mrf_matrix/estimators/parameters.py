"""Parameters that several classifiers take: each is written once, in the group that it belongs to.

A group is a class whose fields are keyword arguments and whose docstring describes them. A
classifier inherits its groups, and writes its own parameters likewise. `parameters` makes the
``__init__`` of all of them, which scikit-learn reads as any other, and composes the docstring's
lists of parameters and fitted attributes. Groups that are inherited last come first.
"""

import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from inspect import cleandoc
from typing import TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Seed as Seed
from mrf_matrix.domain import DomainOrPath
from mrf_matrix.domain.columns import Outside as Outside
from mrf_matrix.domain.columns import Records as Records
from mrf_matrix.forests import Forest, PathSource
from mrf_matrix.mechanisms import ZCDP, PrivacyLedger, PureDP
from strategies import Strategy
from strategies.operators import Operator

Budget = PureDP | ZCDP
Amount = float | Fraction  # a number that is read exactly as it is written

RandomState = int | np.random.RandomState | np.random.Generator | None
GivenForest = Forest | PathSource
GivenStrategy = Strategy | Operator | ArrayLike

Class = TypeVar("Class")
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w[^\n]*)(?:\n(?!\S)[^\n]*)*", re.MULTILINE)
COMPOSED = ("Parameters", "Attributes")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(cls: type[Class]) -> type[Class]:
    """Return the class with an ``__init__`` and a docstring of all its parameters.

    `cls`: its annotated attributes are parameters; all have defaults. Its docstring documents the
    parameters defined here, and those whose meaning differs from the inherited group. Defaults are
    added to it.
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    composed: type[Class] = made
    composed.__doc__ = compose_docstring(composed)
    return composed


def compose_docstring(cls: type) -> str:
    """Return the docstring of a class with the lists of all groups that it inherits."""
    text, sections = _split(cls)
    for title in COMPOSED:
        known: dict[str, str] = {}
        for one in reversed(cls.__mro__):
            if not one.__module__.startswith("sklearn."):
                known |= _entries(_split(one)[1].get(title, ""))
        if title == "Parameters":
            own = {one.name: one.default for one in fields(cls)}
            for name in own.keys() - known.keys():
                raise TypeError(
                    f"{cls.__name__} describes no parameter {name!r}: expected its "
                    f"entry in the docstring's Parameters."
                )
            known = {name: _with_default(known[name], default) for name, default in own.items()}
        if known:
            sections[title] = "\n".join(known.values())
    order = sorted(sections, key=lambda title: title not in COMPOSED)
    listed = (f"{title}\n{'-' * len(title)}\n{sections[title].strip()}" for title in order)
    return "\n\n".join([text.strip(), *listed])


def _split(cls: type) -> tuple[str, dict[str, str]]:
    text, *rest = SECTION.split(cleandoc(vars(cls).get("__doc__") or ""))
    return text, dict(zip(rest[::2], rest[1::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return what a section says of each name; of several in one entry the same."""
    found: dict[str, str] = {}
    for entry in ENTRY.finditer(section):
        names, colon, kind = entry[1].partition(" : ")
        for name in names.split(", "):
            found[name] = f"{name}{colon}{kind}{entry[0][len(entry[1]) :]}".rstrip()
    return found


def _with_default(entry: str, default: object) -> str:
    """Return an entry whose first line ends with the default in use."""
    first, line, rest = entry.partition("\n")
    kind = re.sub(r"(, | : )(default=.*|optional)$", "", first)
    said = ""
    if default is None and "Required" not in rest:
        said = "optional"
    elif default is not MISSING and default is not None:
        said = "default=" + (f'"{default}"' if isinstance(default, str) else repr(default))
    return kind + (said and (", " if " : " in kind else " : ") + said) + line + rest


@parameters
class ReleaseParameters:
    """What is public, what a release may spend, what is claimed of it, and who pays.

    Parameters
    ----------
    domain : Domain, path or "from_data"
        The public schema, with the target's classes, or the path of its file (``.json``).
        Required. "from_data" reads it off the records, which leaks them, and warns.
    epsilon : float, int or Fraction
        Pure-DP budget, spent by `fit`; 1 where no ``rho`` is given either. ``float("inf")`` adds
        no noise.
    rho : float, int or Fraction
        zCDP budget with Gaussian noise, instead of ``epsilon``.
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Gaussian noise under the largest zCDP budget
        that implies it.
    neighboring : {"add_remove", "replace_one"}
        The neighbouring relation of the claim.
    noise : {"exact", "research"}
        "exact": discrete noise from OpenDP, never seedable. "research": the same law from NumPy,
        seedable by ``noise_state``; nothing is claimed of it.
    noise_state : int or Generator
        Seed of research noise; where there is none, it follows an integer ``random_state`` by a
        stream of its own.
    ledger : PrivacyLedger
        Charged once by every `fit`, after all checks and before the records are measured. None:
        that of `privacy_ledger`, if there is one.

    Attributes
    ----------
    privacy_report_ : PrivacyReport
        What is claimed, under which relation, with which noise.
    """

    domain: DomainOrPath = field(default=None, kw_only=False)
    epsilon: Amount | None = None
    rho: Amount | None = None
    delta: Amount = 0
    neighboring: str = "add_remove"
    noise: str = "exact"
    noise_state: Seed = None
    ledger: PrivacyLedger | None = None


@parameters
class ForestParameters:
    """Public trees, drawn without data, and how strategies are selected for them.

    Parameters
    ----------
    n_trees : int
        Random trees of all ensembles together, see `RandomTrees`; ignored where ``forest`` is
        given.
    max_depth : int
        Their depth.
    splits : {"multiway", "binary"}
        See `RandomTrees`.
    forest : Forest or path source, or a list of one for each ensemble
        A public forest, or a source with ``grow(domain, random_state)``.
    n_ensembles : int
        Number of ensembles q (Algorithm 3), each over its own random attributes; votes add up.
    max_features : int
        Attributes d̄ that each ensemble draws; all of them when not given.
    feature_subsets : list of lists of str or int
        The attributes of each ensemble, by name or position, instead of random ones.
    budget_shares : list of positive numbers, or {"equal", "total", "max"}
        Shares of the budget, one for each ensemble; equal when not given. "total" makes the sum
        of the ensembles' errors least, "max" the largest of them.
    strategy : str, Strategy, Operator or ndarray, or a list of them
        Family name for `strategies.select`, or a strategy matrix for each ensemble. Only for
        ``allocation="matrix"``.
    objective : {"total", "max"}
        Which squared error strategies make small: of all answers, or of the worst.
    time_limit : float
        Seconds that ``strategy="auto"`` may work, for each ensemble.
    n_jobs : int
        Processes that select the ensembles' strategies. Noise is always drawn in the parent.
    random_state : int, RandomState or None
        Seed of the public structure.
    """

    n_trees: int = 128
    max_depth: int = 4
    splits: str = "multiway"
    forest: GivenForest | Sequence[GivenForest] | None = None
    n_ensembles: int = 1
    max_features: int | None = None
    feature_subsets: Sequence[Sequence[str | int]] | None = None
    budget_shares: Sequence[Amount] | str | None = None
    strategy: GivenStrategy | Sequence[GivenStrategy] = "auto"
    objective: str = "total"
    time_limit: float = 8.0
    n_jobs: int | None = None
    random_state: RandomState = None
