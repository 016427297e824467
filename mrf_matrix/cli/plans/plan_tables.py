"""Tables of a plan and of a search for people."""

from collections.abc import Mapping
from fractions import Fraction
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mrf_matrix.base.checks import magnitude
from mrf_matrix.cli.screen import table
from strategies.operators.base.arrays import readable_bytes

if TYPE_CHECKING:
    from mrf_matrix.planning import Tuning

AIMS = {
    "total": "",
    "max": ", of the worst answer or group",
    "votes": ", of the votes of all cells",
}
"""What a certificate speaks of, by objective."""

SHOWN = 12  # designs of a search that a table shows


def plan_table(figures: Mapping[str, Any]) -> Table:
    """List a plan's figures, one a line."""
    made = table(f"Plan for {figures['domain']}, before any data", "figure", "value", words=2)
    for name, value in _lines(figures):
        made.add_row(name, value)
    return wrapped(made)


def wrapped(made: Table) -> Table:
    """Return a table whose values are broken over lines, so that the names of rows stay whole."""
    made.columns[1].no_wrap, made.columns[1].overflow = False, "fold"
    return made


def _lines(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    unit = "leaf" if "rms_per_leaf" in figures else "vote"
    lines = [
        ("kind", f"{figures['kind']}, {figures['voting']} voting"),
        ("budget", f"{figures['claim']}, {figures['neighboring']} neighbours"),
        ("domain", f"{figures['attributes']} attributes, {readable(figures['cells'])} cells, "
         f"{figures['classes']} classes"),
        ("forest", ", ".join(
            f"{part['trees']} trees of depth {part['depth']} ({part['leaves']} leaves)"
            for part in figures["ensembles"][:3])),
        ("strategy", ", ".join(
            f"{part['strategy']} ({part['measurements']} measurements)"
            for part in figures["ensembles"][:3])),
        ("sensitivity", f"{figures['sensitivity']:.4g}"),
        ("noise scale", f"{figures['noise_scale']:.4g} records"),
    ]  # fmt: skip
    if "rms_per_leaf" in figures:
        lines.append(("expected rms per leaf", f"{figures['rms_per_leaf']:.4g} records per class"))
    if "rms_per_vote" in figures:
        lines.append(("expected rms per vote", f"{figures['rms_per_vote']:.4g} records per class"))
    lines.append(
        (f"worst {unit}", f"number {figures['worst_row']}: {figures['worst_rms']:.4g} records")
    )
    aim = AIMS[figures["objective"]]
    if "certified_ratio" in figures:
        ratio = figure_text(figures["certified_ratio"])
        lines.append(("certified", f"within {ratio} times the least squared error{aim}"))
    if "target_rms" in figures:
        least = f"at most {figure_text(figures['target_rms'][1])} records"
        lines.append(("target rms", f"{least}; the budget is the least found"))
    if "budget_bound" in figures:
        bound = f"{figures['budget_bound']:.6g}, under continuous noise"
        lines.append(("none keeps it below", bound))
    if figures["records"] is not None:
        ratio = figure_text(figures["median_signal_to_noise"])
        known = f"{ratio} (median, {figures['records']} records spread evenly)"
        lines.append((f"signal to noise of a {unit}", known))
        by = ", by a normal law in place of the noise" * figures["flips_by_normal_law"]
        lines += [
            (f"flips, {margin}", f"{value:.3f}{by}")
            for margin, value in figures["mean_flip_probability"].items()
        ]
    lines.append(("in words", figures["signal_to_noise"]))
    lines += party_lines(figures.get("parties", {}))
    lines += [("note", note) for note in figures.get("notes", ())]
    lines.append(("time expected", f"{figures['seconds']:.3g} s with the strategy search"))
    lines.append(("memory expected", memory_text(figures)))
    return lines


def memory_text(figures: Mapping[str, Any]) -> str:
    """Say what a fit holds at its peak, beside the program itself."""
    return f"{readable_bytes(figures['peak_bytes'])} at the peak of a fit, beside the program"


def party_lines(parties: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List what a plan says of the parties who share its noise; nothing of one party."""
    if not parties:
        return []
    fewest, sums = parties["parties"] - parties["dropouts"], len(parties["rounds"])
    lines = [
        ("parties", f"{parties['parties']}, of whom {parties['dropouts']} may vanish and "
         f"{parties['colluders']} collude"),
        (f"rms if {fewest} contribute",
         f"{parties['rms_if_fewest_contribute_over_if_all_do']:.4g} times that if all do"),
        ("a party sends",
         f"{parties['bytes_from_a_party']:,} bytes in {sums} secure sum{'s' * (sums > 1)}"),
        ("a party receives", f"{parties['bytes_to_a_party']:,} bytes"),
    ]  # fmt: skip
    if parties["loss_of_coarse_integers"] > 1:
        lines.append(
            ("coarse integers", f"{parties['loss_of_coarse_integers']:.4g} times the loss")
        )
    return lines


def size_table(figures: Mapping[str, Any]) -> Table:
    """List the largest arrays to come."""
    made = table("Largest arrays of the release", "array", "shape", "bytes", words=2)
    for size in figures["arrays"][:5]:
        made.add_row(size["name"], " × ".join(map(str, size["shape"])), f"{size['bytes']:,}")
    return made


def search_table(tuning: "Tuning", label: str) -> Table:
    """List the best designs of a search."""
    rows = tuning.rows()
    names, same = _columns([trial.design for trial in tuning.trials])
    made = table(
        f"Designs for {label}, best first, before any data", *names, "objective", "rms/vote",
        "draws", words=len(names),
    )  # fmt: skip
    for row in rows[:SHOWN]:
        vote = "" if isnan(row["rms_per_vote"]) else f"{row['rms_per_vote']:.4g}"
        value = f"{row['value']:.4g}" if isfinite(row["value"]) else "refused"
        value = "not tried" if row["stopped"] else value
        made.add_row(
            *(str(row.get(name, "")) for name in names), value, vote, f"{row['measurements']}",
        )  # fmt: skip
    made.caption = (
        f"objective: {tuning.objective.replace('_', ' ')}, smaller is better; {len(rows)} designs "
        f"in all{same}. draws: noisy measurements per class. Products have no rms."
    )
    return made


def _columns(designs: list[dict[str, Any]]) -> tuple[list[str], str]:
    """Return the parameters that designs differ in, and in words those that they share."""
    values: dict[str, list[str]] = {}
    for design in designs:
        for name, value in design.items():
            values.setdefault(name, []).append(str(value))
    differ = [name for name, found in values.items() if len(set(found)) > 1]
    shared = [f"{name}={found[0]}" for name, found in values.items() if name not in differ]
    return differ, f", where they apply with {', '.join(shared)}" if shared else ""


def figure_text(figure: float | None) -> str:
    """Write a figure; None is one that is not finite."""
    return "infinite" if figure is None else f"{figure:.3g}"


def readable(count: int) -> str:
    """Write a number of cells, with an exponent where it is large; a float may not hold it."""
    if count < 10**9:
        return f"{count:,}"
    return f"{count:.2e}" if count < 10**300 else magnitude(Fraction(count))
