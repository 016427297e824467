"""Run an item of the reproduction report, or draw its pages.

``python tests/reproduction list`` names the items; ``ITEM --quick`` checks its directions in
seconds and writes nothing; ``ITEM --full`` measures it at the paper's size, keeps its record in
``docs/reproduction/records`` after each part, and resumes where it was stopped; ``all`` stands for
every item. Items keep their own records, so several may run side by side. ``--repeats`` lowers the
repeats, which the record says; ``--again`` measures what is there anew. ``pages`` draws the pages
and pictures from the records alone. ``stale`` lists the records whose code changed since they were
computed, what changed, and how to run them again; ``stale ITEM`` looks at one. It makes a quick run
of every item to see what code that enters: a few minutes for all.
"""

import argparse
import re
import sys
from pathlib import Path

from catalogue import ITEMS, named
from joblib import parallel_config
from pages import tables_of, write_pages
from running import run_item
from stale import told


def names(given: str) -> tuple[str, ...]:
    """Return names that commas without a space separate."""
    return tuple(re.split(",(?! )", given))


def main() -> int:
    """Read the command line; return 1 where a direction does not hold."""
    parser = argparse.ArgumentParser(
        prog="python tests/reproduction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("item", help="an item, 'all', 'list', 'pages' or 'stale'")
    parser.add_argument("of", nargs="?", default="all", help="after 'stale': one item alone")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="directions only (the default)")
    scale.add_argument("--full", action="store_true", help="the paper's size")
    parser.add_argument("--parts", type=names, help="some parts of an item, by commas")
    parser.add_argument("--repeats", type=int, help="fewer repeats than the item's own")
    parser.add_argument("--jobs", type=int, help="processes, of items that share out their folds")
    parser.add_argument("--again", action="store_true", help="measure anew what is kept")
    parser.add_argument("--records", type=Path, help="keep records in this folder instead")
    given = parser.parse_args()
    if given.item == "list":
        for item in ITEMS:
            print(f"{item.name:28} {item.title}")
        return 0
    if given.item == "pages":
        write_pages()
        return 0
    if given.item == "stale":
        print("\n".join(line for item in named(given.of) for line in told(item)))
        return 0
    failed = []
    for item in named(given.item):
        with parallel_config(n_jobs=given.jobs):
            record = run_item(
                item, given.full, given.repeats, given.records, given.parts, again=given.again
            )
        if not given.full:
            print(record.words["privacy"], tables_of(record), sep="\n")
        failed += [
            f"{item.name}: {claim}" for claim, holds in record.words["claims"].items() if not holds
        ]
    print("\n".join(f"does not hold: {one}" for one in failed), end="\n" if failed else "")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
