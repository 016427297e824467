"""The report's pages, from the records alone."""

from collections import Counter
from math import fsum
from pathlib import Path

from catalogue import BY_NAME
from commits import in_words
from item import Figure
from pictures import draw
from record import RECORDS, Record, read_record, worded, write_record
from rows import ROWS, Row

PAGES = RECORDS.parent
ROOT = PAGES.parents[1]
INTROS = {
    "forests_003": (
        "Private forests by the matrix mechanism (003)",
        "Tajima, Wu and Houmansadr, *Improving Private Random Forest Prediction Using Matrix"
        " Representation* (AAAI 2025).",
    ),
    "multinomial_000_001": (
        "Multinomial forests (000, 001)",
        "Bai, Li, Li, Yang, Jiang and Xia, *Multinomial Random Forest* (Pattern Recognition 2022;"
        " 001 is its arXiv version).",
    ),
    "rates_002": (
        "Convergence rates (002)",
        "Gao, Xu and Zhou, *Towards Convergence Rate Analysis of Random Forests for Classification*"
        " (NeurIPS 2020).",
    ),
    "federated_004": (
        "Federated forests (004)",
        "*Enhancing Privacy and Robustness in Federated Random Forests* (poster).",
    ),
}
SHOWN_BY_TESTS = {
    "000, 001: with the stopping rule of Algorithm 1 on raw counts Theorem 2 does not hold; with"
    " public depth, all classes and all leaves it does": (
        "tests/mrf_matrix/forests/growth/test_privacy.py"
    ),
    "000: SmoothRF, its rival, is not ε-DP as published": (
        "tests/reproduction/rivals/test_smooth_sensitivity.py"
    ),
    "000: Lemma 4's central cuts fail where values crowd at an end": (
        "tests/mrf_matrix/forests/theory/test_finite_sample.py"
    ),
    "002: Theorem 4's rate is 1/n, not its square root; sharp forms of all theorems": (
        "tests/mrf_matrix/forests/theory/test_finite_sample.py"
    ),
    "004: growing protects no record: one more decides whether a tree is split": (
        "tests/mrf_matrix/federated/systems/test_growing.py"
    ),
}
"""Where a paper is wrong, and a test of the library that says so."""

HOW = (
    "Every figure is read from a record that `python tests/reproduction ITEM --full` wrote; this"
    " page is drawn from the records by `python tests/reproduction pages`. A cell shows ours ± one"
    " standard error over the repeats, then in brackets the paper's figure and ours minus it."
    " `python tests/reproduction stale` tells whether the code behind a figure changed since."
)


def write_pages(folder: Path = PAGES) -> None:
    """Put the items' present words into all records, write the pages and draw the pictures."""
    records = all_records()
    for record in records:
        write_record(worded(record, BY_NAME[record.item]), RECORDS)
    records = all_records()
    draw(records, folder / "pictures")
    for name, text in page_texts(records).items():
        (folder / f"{name}.md").write_text(text)


def all_records(folder: Path = RECORDS) -> list[Record]:
    """Return all records, in the order of their names."""
    found = [read_record(file.stem, folder) for file in sorted(folder.glob("*.json"))]
    return [record for record in found if record is not None]


def page_texts(records: list[Record]) -> dict[str, str]:
    """Return the text of every page by its name."""
    pages = {
        name: page_of(name, [r for r in records if r.words["page"] == name]) for name in INTROS
    }
    return {"index": index_of(records), **pages}


def page_of(name: str, records: list[Record]) -> str:
    """Return a paper's page: one section an item."""
    title, source = INTROS[name]
    sections = [f"# {title}", f"{source}\n\n{HOW}", *map(section_of, records)]
    return "\n\n".join(sections) + "\n"


def section_of(record: Record) -> str:
    """Return what a page says of one item."""
    words = record.words
    head = [f"({record.item})=", f"## {words['title']}"]
    texts = [run_of(record), f"**{words['privacy']}**", tables_of(record), claims_of(record)]
    texts += [
        f"{label}: {words[key]}"
        for key, label in {
            "finding": "**Where the paper is wrong**",
            "why": "Where they differ",
            "beyond": "Beyond the paper",
        }.items()
        if words[key]
    ]
    if (PAGES / "pictures" / f"{record.item}.svg").is_file():
        texts.append(f"![{words['title']}](pictures/{record.item}.svg)")
    return "\n".join(head) + "\n\n" + "\n\n".join(text for text in texts if text)


def run_of(record: Record) -> str:
    """Say how the record was measured, and what is left of it."""
    parts = record.parts.values()
    seconds = fsum(part.seconds for part in parts)  # alike on every Python
    cores = ", ".join(sorted({str(part.cores) for part in parts}))
    repeats = Counter(part.repeats for part in parts)
    counts = " and ".join(map(str, sorted(repeats)))
    how = "one run" if counts == "1" else f"{counts} repeats (seeds 0, 1 ...)"
    left = f" Left: {'; '.join(record.left)}." if record.left else ""
    lack = "".join(f" {name} {why}." for name, why in record.missing.items())
    return (
        f"`{record.item}`, [record](records/{record.item}.json): {how}, {seconds:,.0f} s of one"
        f" core, on a machine of {cores}. {commits_of(record)}{left}{lack}"
    )


def commits_of(record: Record) -> str:
    """Say which code the figures were computed on."""
    parts: dict[str, list[str]] = {}
    for name, part in record.parts.items():
        parts.setdefault(part.commit, []).append(name)
    if len(parts) < 2:
        return "".join(f"Computed on {in_words(commit)}." for commit in parts)
    listed = (f"{', '.join(names)} on {in_words(commit)}" for commit, names in parts.items())
    return f"Computed: {'; '.join(listed)}."


def claims_of(record: Record) -> str:
    """List the directions, and whether each holds."""
    claims = record.words["claims"].items()
    return "\n".join(
        f"- {'holds' if holds else '**does not hold**'}: {text}" for text, holds in claims
    )


def tables_of(record: Record) -> str:
    """Return the figures as a table: one column more for the paper where there is one only."""
    table, paper, form = record.table, record.paper, record.words["form"]
    if not table.figures:
        return ""
    if paper and len(table.columns) == 1:
        (column,) = table.columns
        head, lines = ["", column, "the paper", "difference"], []
        for figure in table.figures:
            printed = paper.get((figure.row, column))
            beside = (
                ["", ""] if printed is None else [f"{printed:{form}}", gap(figure, printed, form)]
            )
            lines.append([figure.row, shown(figure, form), *beside])
    else:
        head = ["", *table.columns]
        lines = [
            [row, *(cell(record, row, column) for column in table.columns)] for row in table.rows
        ]
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def cell(record: Record, row: str, column: str) -> str:
    """Return ours, and in brackets the paper's and the difference."""
    form, printed = record.words["form"], record.paper.get((row, column))
    try:
        figure = record.table.figure(row, column)
    except KeyError:
        return "" if printed is None else f"– ({printed:{form}})"
    if printed is None:
        return shown(figure, form)
    return f"{shown(figure, form)} ({printed:{form}}, {gap(figure, printed, form)})"


def shown(figure: Figure, form: str) -> str:
    """Return a figure with its standard error."""
    error = "" if figure.error is None else f"\u00a0±\u00a0{figure.error:{form}}"
    return f"{figure.value:{form}}{error}"


def gap(figure: Figure, printed: float, form: str) -> str:
    """Return ours minus the paper's, with its sign."""
    return f"{figure.value - printed:+{form}}"


def index_of(records: list[Record]) -> str:
    """Return the first page: the 64 rows, then where the papers are wrong."""
    texts = [
        "# The papers, redone",
        "Every system, bound, table and figure of the five papers, run here, beside the papers'"
        " numbers. `python tests/reproduction list` names the items; `ITEM --quick` checks its"
        " directions in seconds; `ITEM --full` measures it and keeps a record. Records written on"
        " fewer repeats than the papers' say so. Data sets that the library does not load are read"
        " from a folder `../shared/data` beside the checkout.",
        "Records name the commit of the code that they were computed on. Runs have written it since"
        " 26 November 2026. Of older figures the pages say 'a commit before', and name the one that"
        " brought them into the repository, found in its history. `python tests/reproduction stale`"
        " lists the records whose code changed since, what changed, and how to run them again.",
        "::::{toctree}\n:maxdepth: 1\n\n" + "\n".join(INTROS) + "\n::::",
        "## Where the papers are wrong",
        "Each is shown by an item or a test that anyone can run again.",
        "\n".join(
            f"- [{r.words['title']}]({r.words['page']}.md#{r.item}): {r.words['finding']}"
            for r in records
            if r.words["finding"]
        ),
        "\n".join(f"- {text}: `{test}`" for text, test in SHOWN_BY_TESTS.items()),
        "## The 64 rows",
        rows_of(records),
    ]
    return "\n\n".join(texts) + "\n"


def rows_of(records: list[Record]) -> str:
    """Return the table of the 64."""
    lines = [["", "paper", "what", "state", "shown by"], ["---"] * 5]
    for row in ROWS:
        items = [record for record in records if row.number in record.words["rows"]]
        links = [f"[{r.item}]({r.words['page']}.md#{r.item})" for r in items]
        tests = [f"`{name}`" for name in row.tests]
        lines.append(
            [str(row.number), row.paper, row.what, state_of(row, items), ", ".join(links + tests)]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def state_of(row: Row, items: list[Record]) -> str:
    """Return whether a row runs; what only records show may be measured in part."""
    if not items and not row.tests:
        return "no record yet"
    reasons = [f"not so: {text}" for r in items for text, ok in r.words["claims"].items() if not ok]
    few = any(part.repeats < r.words["repeats"] for r in items for part in r.parts.values())
    lack = [r for r in items if set(r.words["parts"]) - set(r.parts)]
    if not row.tests:
        counts = ", ".join(f"{len(r.parts)} of {len(r.words['parts'])} parts" for r in lack)
        reasons += [f"measured: {counts}"] if lack else []
    state = "in part" if lack and not row.tests else "runs"
    state += ", fewer repeats" if few and not row.tests else ""
    return f"{state} ({'; '.join(reasons)})" if reasons else state
