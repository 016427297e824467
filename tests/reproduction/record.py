"""What a run leaves behind: one JSON an item, from which pages and pictures are drawn."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from commits import UNKNOWN
from item import Figure, Item, Table

from mrf_matrix import __version__

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "reproduction" / "records"
PACKAGES = ("numpy", "scipy", "scikit-learn", "opendp")

FLAT = re.compile(r"\[\s+((?:\"(?:[^\"\\]|\\.)*\"|[^\[\]{}\"])*?)\s+\]")
"""An innermost list, which a record writes on one line."""


@dataclass(frozen=True)
class Part:
    """What one part gave, from how many repeats (seeds 0, 1, ...), in how many seconds, on what."""

    figures: tuple[Figure, ...]
    repeats: int
    seconds: float
    versions: Mapping[str, str]
    cores: int
    commit: str = UNKNOWN


@dataclass(frozen=True)
class Record:
    """The parts of an item that are measured, what the others lack, and the item's own words."""

    item: str
    full: bool
    words: Mapping[str, Any]
    parts: Mapping[str, Part] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """All figures, in the order of the item's parts."""
        return Table(tuple(one for part in self.parts.values() for one in part.figures))

    @property
    def paper(self) -> dict[tuple[str, str], float]:
        """The paper's numbers."""
        return {(row, column): value for row, column, value in self.words["paper"]}

    @property
    def left(self) -> list[str]:
        """What a full run would still do."""
        wanted = self.words["repeats"]
        few: dict[int, list[str]] = {}
        for name, part in self.parts.items():
            if part.repeats < wanted:
                few.setdefault(part.repeats, []).append(name)
        return [
            *(f"{', '.join(names)} ({n} of {wanted} repeats)" for n, names in few.items()),
            *(name for name in self.words["parts"] if name not in self.parts),
        ]


def measured(figures: list[Figure], repeats: int, seconds: float, commit: str) -> Part:
    """Return a part as it was measured here, on the code of a commit."""
    versions = {"mrf_matrix": __version__} | {name: version(name) for name in PACKAGES}
    return Part(tuple(figures), repeats, round(seconds, 1), versions, os.cpu_count() or 1, commit)


def words_of(item: Item, table: Table, full: bool) -> dict[str, Any]:
    """Return what an item says of itself, and which of its claims hold.

    A quick run is no match for the paper's numbers.
    """
    paper = item.paper if full else {}
    return {
        "title": item.title,
        "rows": list(item.rows),
        "page": item.page,
        "privacy": item.privacy,
        "parts": list(item.parts),
        "repeats": item.repeats,
        "claims": item.judged(table),
        "paper": [[row, column, rounded(value)] for (row, column), value in paper.items()],
        "why": item.why,
        "finding": item.finding,
        "beyond": item.beyond,
        "form": item.form,
    }


def worded(record: Record, item: Item) -> Record:
    """Return a record in the item's present words and order of parts."""
    known = item.parts if record.full else item.parts_of(full=False)
    ordered = {name: record.parts[name] for name in known if name in record.parts}
    record = replace(record, parts=ordered)
    return replace(record, words=words_of(item, record.table, record.full))


def empty_record(item: Item, full: bool) -> Record:
    """Return a record without a part."""
    return Record(item.name, full, words_of(item, Table(()), full))


def read_record(name: str, folder: Path = RECORDS) -> Record | None:
    """Return the record of an item, or None."""
    file = folder / f"{name}.json"
    if not file.is_file():
        return None
    content = json.loads(file.read_text())
    parts = {
        part: Part(
            figures=tuple(Figure(*figure) for figure in found["figures"]),
            **{key: found[key] for key in ("repeats", "seconds", "versions", "cores", "commit")},
        )
        for part, found in content.pop("parts").items()
    }
    return Record(parts=parts, **content)


def rounded(value: float | None) -> float | None:
    """Return six significant digits."""
    return None if value is None else float(f"{value:.6g}")


def write_record(record: Record, folder: Path) -> None:
    """Write a record, whole or not at all."""
    content = asdict(record)
    for part in content["parts"].values():
        part["figures"] = [
            [
                one["row"],
                one["column"],
                rounded(one["value"]),
                rounded(one["error"]),
                one["repeats"],
            ]
            for one in part["figures"]
        ]
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{record.item}.json.part"
    text = json.dumps(content, indent=1, ensure_ascii=False)
    draft.write_text(FLAT.sub(lambda m: "[" + " ".join(m[1].split()) + "]", text) + "\n")
    draft.replace(folder / f"{record.item}.json")
