"""Data sets: the library's own, and CSV files in a folder ``shared/data`` beside the checkout."""

from pathlib import Path

import numpy as np
import pandas as pd
from item import MissingData

SHARED = Path(__file__).resolve().parents[3] / "shared"


def beside(relative: str) -> Path:
    """Return a file of the folder beside the checkout."""
    file = SHARED / relative
    if not file.is_file():
        raise MissingData(f"needs ../shared/{relative} beside the checkout")
    return file


def as_numbers(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return records (texts as texts), records as numbers, and classes; missing is -1."""
    frame = pd.read_csv(
        beside(f"data/{name}.csv"), na_values="?", skipinitialspace=True, low_memory=False
    )
    frame = frame[frame["class"].notna()]
    classes = pd.factorize(frame.pop("class"), sort=True)[0]
    is_number = {c: frame[c].dtype.kind in "ifb" for c in frame}
    numbers = [
        frame[c].astype(float).fillna(-1) if is_number[c] else pd.factorize(frame[c], sort=True)[0]
        for c in frame
    ]
    table = np.column_stack(numbers).astype(float)
    if all(is_number.values()):
        return table, table, classes
    texts = frame.astype(object).where(frame.notna(), "-1")
    mixed = table.astype(object)
    for i, column in enumerate(frame):
        if not is_number[column]:
            mixed[:, i] = texts[column].astype(str)
    return mixed, table, classes
