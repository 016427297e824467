"""OpenML's data sets, fetched through scikit-learn on the user's machine."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.domain import DomainError

PREFIX = "openml:"


def fetch_columns(name: str) -> tuple[dict[str, Values], str, str, str]:
    """Return the columns of an OpenML set with its target's name, its source and its licence.

    `name`: ``openml:NAME``, ``openml:NAME@VERSION`` or ``openml:ID``.

    Raises DomainError if the name is empty, the set is sparse, or it has not exactly one target.
    """
    from sklearn.datasets import fetch_openml

    key = name.removeprefix(PREFIX)
    bunch = fetch_openml(
        **openml_arguments(key), as_frame=find_spec("pandas") is not None, parser="auto"
    )
    if hasattr(bunch.data, "tocsr"):
        raise DomainError(f"{name} is sparse; expected a table of attributes.")
    columns = named_columns(bunch)
    targets = list(bunch.target_names or ())
    if len(targets) != 1:
        raise DomainError(f"{name} has the targets {targets}; expected exactly one.")
    details: Mapping[str, Any] = bunch.details or {}
    source = f"OpenML {details.get('id', key)}: {bunch.url}"
    return columns, targets[0], source, str(details.get("licence", "not stated"))


def openml_arguments(key: str) -> dict[str, object]:
    """Read ``NAME``, ``NAME@VERSION`` or ``ID``."""
    name, _, version = key.partition("@")
    if not name:
        raise DomainError(f"'{PREFIX}{key}'; expected e.g. 'openml:mushroom' or 'openml:24'.")
    if name.isdecimal():
        return {"data_id": int(name)}
    if version and not version.isdecimal():
        raise DomainError(f"'{PREFIX}{key}': version {version!r}; expected an integer.")
    return {"name": name, "version": int(version) if version else "active"}


def named_columns(bunch: Any) -> dict[str, Values]:
    """Return features and target by name, from a frame or from arrays."""
    if bunch.frame is not None:
        import narwhals as nw

        frame = nw.from_native(bunch.frame, eager_only=True)
        return {name: frame[name].to_numpy() for name in frame.columns}
    columns = {name: bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    return columns | {bunch.target_names[0]: np.asarray(bunch.target)}
