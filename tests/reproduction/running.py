"""Run an item part by part, resume a full run, and say what is left."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from commits import commit_of
from item import Item, MissingData
from record import RECORDS, Record, empty_record, measured, read_record, worded, write_record


def run_item(
    item: Item,
    full: bool = False,
    repeats: int | None = None,
    folder: Path | None = None,
    parts: tuple[str, ...] | None = None,
    say: Callable[[str], None] = print,
    again: bool = False,
) -> Record:
    """Measure the parts that are not yet measured with as many repeats; return the record.

    A full run keeps its record in ``folder`` (by default the repository's) after every part, and
    takes up there; ``again`` measures what is there anew. A quick run begins anew and is kept only
    where a folder is named.
    """
    unknown = set(parts or ()) - {*item.parts, *item.quick}
    if unknown:
        raise SystemExit(f"{item.name} has no part {sorted(unknown)}: expected {[*item.parts]}")
    place = folder or (RECORDS if full else None)
    run, commit = item.run(full, repeats), commit_of()
    record = empty_record(item, full)
    for part in parts or item.parts_of(full):
        record = kept(item, place) if full else record
        done = part in record.parts and record.parts[part].repeats >= run.repeats
        if done and not again:
            continue
        start = time.process_time()
        missing = {name: why for name, why in record.missing.items() if name != part}
        try:
            figures = item.measure(part, run)
            found = measured(figures, run.repeats, time.process_time() - start, commit)
            record = kept(item, place) if full else record  # another process may have added parts
            record = replace(record, parts={**record.parts, part: found}, missing=missing)
            say(f"{item.name}: {part}: {found.seconds:.1f} s of processor time")
        except MissingData as lack:
            record = replace(record, missing={**missing, part: str(lack)})
            say(f"{item.name}: {part}: {lack}")
        record = keep(worded(record, item), place)
    record = keep(worded(record, item), place)
    if full:
        say(f"{item.name}: " + (f"left: {', '.join(record.left)}" if record.left else "complete"))
    return record


def kept(item: Item, place: Path | None) -> Record:
    """Return what is kept of a full run."""
    return (read_record(item.name, place) if place else None) or empty_record(item, full=True)


def keep(record: Record, place: Path | None) -> Record:
    """Write a record where there is a place for it."""
    if place is not None:
        write_record(record, place)
    return record
