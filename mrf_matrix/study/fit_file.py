"""Finished fits of a study in a JSON file, so that an interrupted one goes on where it stopped."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

from mrf_matrix.base import whole_file
from mrf_matrix.base.fields import parsed
from mrf_matrix.base.files import content_of
from mrf_matrix.study.comparison import Score

MAX_BYTES = 256 * 1024**2
EVERY = 2.0  # seconds between two writings

Key = tuple[str, float | None, int, int]


class FitFile:
    """Scores by method, ε, split and draw.

    Parameters
    ----------
    path : str or Path or None
        None keeps nothing.
    request : mapping
        What was asked, as plain values: a file of another study is refused.

    Raises ValueError if the file is not of this study.
    """

    def __init__(self, path: str | PathLike[str] | None, request: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.request = json.loads(json.dumps(request))
        self.scores: dict[Key, Score] = {}
        self._written = monotonic()
        if self.path is None or not self.path.exists():
            return
        try:
            stored: Any = parsed(content_of(self.path, MAX_BYTES), finite=False)
            scores = [Score(**row) for row in stored["scores"]]
            same = stored["request"] == self.request
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"resume={str(self.path)!r} is no file of fits ({error}): expected one that "
                f"compare wrote, or a new name."
            ) from None
        if not same:
            raise ValueError(
                f"resume={str(self.path)!r} is of another study: expected the same data set and "
                f"settings, or a new name."
            )
        self.scores = {_key(score): score for score in scores}

    def get(self, method: str, epsilon: float | None, split: int, draw: int) -> Score | None:
        """Return the score of a method at an ε, on a split, in a draw; None if it is to do."""
        return self.scores.get((method, epsilon, split, draw))

    def add(self, score: Score) -> None:
        """Keep a score; the file is written every two seconds."""
        self.scores[_key(score)] = score
        if monotonic() - self._written > EVERY:
            self.write()

    def write(self) -> None:
        """Write all scores, whole or not at all."""
        if self.path is None:
            return
        record = {"request": self.request, "scores": [vars(one) for one in self.scores.values()]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as file:
            file.write(f"{json.dumps(record)}\n".encode())
        self._written = monotonic()


def _key(score: Score) -> Key:
    return score.method, score.epsilon, score.split, score.draw
