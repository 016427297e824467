"""The list of records whose subject changed since they were computed."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from commits import ROOT, in_words
from item import Item, MissingData
from record import RECORDS, read_record
from staleness import changes_since, subject_of

SHOWN = 4
"""Files, and names of each, that are shown; the others are counted."""


def told(item: Item, folder: Path = RECORDS, root: Path = ROOT) -> Iterator[str]:
    """Yield what is to be said of an item: nothing where its subject is as it was."""
    record = read_record(item.name, folder)
    if record is None or not record.parts:
        return

    def quick_run() -> None:
        for part in item.parts_of(full=False):
            item.measure(part, item.run(full=False))

    try:
        subject = subject_of(quick_run, root)
    except MissingData as lack:
        yield f"{item.name}: cannot be told: its quick run {lack}"
        return
    for commit in dict.fromkeys(part.commit for part in record.parts.values()):
        names = [name for name, part in record.parts.items() if part.commit == commit]
        chosen = "" if set(names) == set(item.parts) else ",".join(names)
        changes = changes_since(commit, subject, root)
        what = f"{item.name}{f' ({chosen})' if chosen else ''}, computed on {in_words(commit)}"
        if changes is None:
            yield f"{what}: cannot be told, for git does not know that commit here"
        elif changes:
            yield f"{what}; changed since:"
            yield from listed(changes)
        if changes != {}:
            parts = f" --parts {quote(chosen)}" if chosen else ""
            yield f"    again: python tests/reproduction {item.name} --full --again{parts}"


def listed(changes: dict[str, list[str]]) -> Iterator[str]:
    """Yield the files with most changes, and names that changed in them."""
    order = sorted(changes, key=lambda file: (-len(changes[file]), file))
    for file in order[:SHOWN]:
        names = changes[file]
        rest = f" and {len(names) - SHOWN} more" if names[SHOWN:] else ""
        yield f"    {file}: {', '.join(names[:SHOWN])}{rest}"
    if order[SHOWN:]:
        yield f"    and {len(order) - SHOWN} more files"
