"""Finished trials of a search: plain values, kept in a JSON file so that a search resumes."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf, nan
from os import PathLike
from pathlib import Path
from typing import Any

from mrf_matrix.base import whole_file
from mrf_matrix.base.fields import parsed
from mrf_matrix.base.files import content_of
from mrf_matrix.planning.plain_values import key_of

SCHEMA = 1
MAX_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class Trial:
    """One design that was tried.

    Attributes
    ----------
    design : dict
        Its parameters.
    value : float
        The objective, smaller is better; infinite where the design was refused.
    rms_per_vote : float
        Expected error of a weight vote, in records per class; NaN where votes multiply.
    measurements : int
        Noise draws of the release for each class.
    leaves : int
        Leaves of all trees.
    nbytes : int
        Bytes that a fit holds at its peak, as expected (`peak_bytes`).
    seconds : float
        Seconds from the start of its group (designs that differ in voting) to its end.
    note : str
        Why it was refused, or not tried.
    stopped : bool
        Not tried: the time of the search was over. Its figures are unknown.
    floor : float
        The objective without any noise, where it was asked: no strategy is below it.
    searched : bool
        Whether a strategy was sought. Otherwise cells are measured, and the floor is above what
        others reach (or the time was over): see the note.
    """

    design: dict[str, Any]
    value: float
    rms_per_vote: float
    measurements: int
    leaves: int
    nbytes: int
    seconds: float
    note: str = ""
    stopped: bool = False
    floor: float = -inf
    searched: bool = True

    @property
    def key(self) -> str:
        """Tell designs apart."""
        return design_key(self.design)

    def row(self) -> dict[str, Any]:
        """Return design and figures in one flat row."""
        figures = asdict(replace(self, design={}))
        return {**self.design, **{name: figures[name] for name in figures if name != "design"}}


def design_key(design: Mapping[str, Any]) -> str:
    """Return a name of a design that is the same in every process."""
    return key_of(design)


def not_tried(design: dict[str, Any], note: str) -> Trial:
    """Return what stands for a design that the search did not come to."""
    return Trial(design, inf, nan, 0, 0, 0, 0.0, note, stopped=True)


class TrialFile:
    """A JSON file of finished trials, written whole after each, so that an interrupt loses none.

    Parameters
    ----------
    path : str or Path or None
        None keeps nothing.
    request : dict
        What was asked: a file of another request is refused.
    """

    def __init__(self, path: str | PathLike[str] | None, request: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.request = json.loads(key_of(request))

    def load(self) -> list[Trial]:
        """Return the finished trials; none where there is no file yet.

        Raises ValueError if the file is not of this search.
        """
        if self.path is None or not self.path.exists():
            return []
        try:
            stored: Any = parsed(content_of(self.path, MAX_BYTES), finite=False)
            request, rows = stored["request"], [_trial(row) for row in stored["trials"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"resume={str(self.path)!r} is no file of trials ({error}): expected one that "
                f"tune wrote, or a new name."
            ) from None
        if request != self.request:
            changed = sorted(k for k in request | self.request if request.get(k) != (
                self.request.get(k)
            ))  # fmt: skip
            raise ValueError(
                f"resume={str(self.path)!r} is of another search (differs in {changed}): expected "
                f"the same domain, budget, kind and objective, or a new name."
            )
        return rows

    def save(self, trials: list[Trial]) -> None:
        """Write all finished trials, by replacing the file."""
        if self.path is None:
            return
        record = {
            "schema": SCHEMA,
            "request": self.request,
            "trials": [
                {**asdict(replace(trial, design={})), "design": json.loads(trial.key)}
                for trial in trials
            ],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as file:
            file.write(f"{json.dumps(record, indent=1)}\n".encode())


def _trial(row: dict[str, Any]) -> Trial:
    return Trial(**row)
