"""A privacy report for people."""

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mrf_matrix.reports import PrivacyReport


def report_table(report: PrivacyReport) -> Table:
    """Return a report as a table of two columns under its statement."""
    table = Table(
        title=Text(report.statement, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_header=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in rows_of(report):
        table.add_row(name, Text(text))
    return table


def rows_of(report: PrivacyReport) -> list[tuple[str, str]]:
    """Return what a report says, a line each."""
    rows = [
        ("budget spent", report.budget),
        ("neighbours", report.neighboring),
        ("noise", report.noise),
        *(("measured", str(one)) for one in report.measurements),
    ]
    for what, error in (
        ("leaf value", report.expected_rms_per_leaf),
        ("vote", report.expected_rms_per_vote),
    ):
        if error is not None:
            rows.append(("expected error", f"{error:.4g} records rms per {what} and class"))
    rows.append(("taken for public", "; ".join(report.public)))
    return rows + [("note", note) for note in report.notes]
