"""`mrf-matrix plan`: what a design costs in error, from its public domain alone."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
from rich.table import Table

from mrf_matrix import plotting
from mrf_matrix.base.checks import magnitude, shorten
from mrf_matrix.base.files import content_of
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import to_option_words, user_errors
from mrf_matrix.cli.number_options import comma_floats, number_text
from mrf_matrix.cli.screen import VOLUME, advise, console, option_value, print_and_write, table
from mrf_matrix.datasets.registry import public_domain, public_records
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budget import SHARE_RULES
from mrf_matrix.planning import AutoPlan, Plan, peak_bytes, plan
from mrf_matrix.planning.plans.plan_kind import KINDS as PLANNED
from mrf_matrix.planning.plans.signal_to_noise import Verdict, verdict_of
from mrf_matrix.release.step_table import fold_steps
from strategies.operators.base.arrays import readable_bytes


def read_numbers(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[float] | list[int] | None:
    """Read numbers from a text file, separated by white space or commas."""
    if value is None:
        return None
    try:
        words = content_of(value).decode().replace(",", " ").split()
        texts = list(map(number_text, words))
        return list(map(int, texts)) if param.name == "groups" else list(map(float, texts))
    except (OSError, ValueError) as error:
        raise click.BadParameter(
            f"{value}: expected a text file of numbers ({shorten(str(error), 200)})"
        ) from error


def read_shares(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> str | list[float] | None:
    if value is None or value in SHARE_RULES:
        return value
    return comma_floats(ctx, param, value)


ALLOCATIONS = tuple(dict.fromkeys(one.allocation for one in PLANNED))


@click.command(name="plan")
@click.argument("domain")
@click.option(
    "--domain", "domain_file", type=options.FILE, help="Domain file, where DOMAIN is none."
)
@options.budget()
@options.delta()
@options.kind()
@options.model()
@options.n_records()
@options.n_trees("Trees of all ensembles.")
@click.option("--max-depth", default=4, help="Depth of a tree.")
@options.splits(None)
@click.option("--n-ensembles", default=1, help="Ensembles q.")
@click.option("--max-features", type=int, help="Attributes of each ensemble [default: all].")
@options.n_blocks()
@click.option("--queries", type=int, help="Public queries to draw [default: 128].")
@options.strategy("Strategy family, or auto.")
@click.option(
    "--objective",
    type=click.Choice(["total", "max"]),
    default="total",
    help="Which error is made small: of all answers, or of the worst answer or group.",
)
@click.option("--weights", callback=read_numbers, metavar="FILE", help="A weight of each answer.")
@click.option(
    "--groups", callback=read_numbers, metavar="FILE", help="A group of each answer, for max."
)
@click.option(
    "--optimise-for",
    type=click.Choice(["auto", "leaves", "votes"]),
    default="auto",
    help="Of matrix: whose errors are made small. auto: of votes under --rho.",
)
@click.option(
    "--target-rms",
    type=click.FloatRange(min=0, min_open=True),
    help="Find the least budget: largest error of an answer. With --rho auto for Gaussian noise.",
)
@click.option(
    "--budget-shares",
    callback=read_shares,
    metavar="equal|total|max|LIST",
    help="Of the ensembles: equal, least total, least largest error, or numbers.",
)
@click.option(
    "--allocation",
    type=click.Choice(ALLOCATIONS),
    default="matrix",
    help="matrix, or a baseline of --kind matrix (subsample: per_query).",
)
@click.option("--voting", type=click.Choice(["hard", "weight"]), help="[default: as the kind]")
@options.neighboring()
@options.parties(
    click.option("--parties", type=int, help="Parties who do not trust each other share the noise.")
)
@options.random_state()
@options.time_limit(8.0, "Seconds for each strategy, and again for the lower bound of all.")
@click.option("--strict", is_flag=True, help="End with an error where noise leaves nothing.")
@options.results("DOMAIN")
@user_errors
def command(
    domain: str,
    domain_file: Path | None,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    strict: bool,
    **settings: Any,
) -> None:
    """Plan a release over DOMAIN: a domain file (JSON), or a data set's name.

    No record is read, not even of a data set given by name: only its public domain. A data file may
    stand for DOMAIN beside --domain, as in `mrf-matrix fit`; it is not opened.
    """
    domain = domain if domain_file is None else str(domain_file)
    schema, label = public_domain(domain)
    settings["n_blocks"] = settings["n_blocks"] or "auto"
    settings["n_records"] = settings["n_records"] or public_records(domain)
    file = (output or Path("results") / label) / "plan.json"
    settings["kind"] = options.checked_kind(settings["kind"])
    if KINDS[settings["kind"]].is_stepwise:
        weighed = show_steps(schema, label, settings, file, as_json=as_json)
    else:
        advise(schema, settings["n_records"])
        weighed = show_plan(schema, label, settings, file, as_json=as_json, drawn=not no_pictures)
    if strict and (refusal := weighed.refusal) is not None:
        raise click.ClickException(f"--strict: {to_option_words(refusal)}.")


def show_plan(
    schema: Domain, label: str, settings: dict[str, Any], file: Path, *, as_json: bool, drawn: bool
) -> Verdict:
    asked = {name: one for name, one in settings.items() if name not in ("alpha", "beside")}
    made = cast(Plan, plan(schema, **asked))
    in_time = bound_in_time(made, settings["time_limit"])
    figures = {"domain": label, **made.to_dict(bound=in_time)}
    if not in_time:
        missing = ("lower_bound", "certified_ratio", "budget_bound")
        figures |= dict.fromkeys(missing if "target_rms" in figures else missing[:2])
    weighed = verdict_of(made)
    figures |= {"signal_to_noise": str(weighed), "peak_bytes": peak_bytes(made)}

    def show() -> None:
        console().print(plan_table(figures), "", size_table(figures), FREE)

    drawing = partial(pictures, made, bound=in_time) if drawn else None
    print_and_write(figures, show, file, drawing, as_json=as_json)
    return weighed


FREE = "Nothing was spent and no record read: every figure is public."


class BoundTimeoutError(Exception):
    """A bound takes longer than it may."""


def bound_in_time(made: Plan, seconds: float) -> bool:
    """Compute a plan's lower bound, unless it takes longer; where no timer is, however long.

    A plan that has none, by its kind or its law of noise, has it in no time.
    """
    if not all(part.is_certified for part in made.parts):
        return True
    try:
        with alarm(seconds):
            _ = made.lower_bound  # which is kept
    except BoundTimeoutError:
        return False
    return True


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise BoundTimeoutError in a block of more processor time, after a step of linear algebra."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "setitimer")):
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise BoundTimeoutError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL if before is None else before)


def pictures(made: Plan, *, bound: bool) -> dict[str, Any]:
    wanted: dict[str, Any] = {"error.png": plotting.ErrorCurveDisplay}
    if bound and all(part.strategy is not None for part in made.parts):
        wanted["strategies.png"] = plotting.StrategyBoundDisplay
    if made.releases_leaves:
        wanted["leaves.png"] = plotting.LeafErrorDisplay
    if max(part.mechanism.rounded.matrix.shape[1] for part in made.parts) <= 100_000:
        wanted["sensitivity.png"] = plotting.CellSensitivityDisplay
    return {name: kind.from_plan(made) for name, kind in wanted.items()}


EVEN = (
    "The first choice says how rare the rarer class is. The steps after it are those of even "
    "classes; of uneven ones others share the same rest."
)


def show_steps(
    schema: Domain, label: str, settings: Mapping[str, Any], file: Path, *, as_json: bool
) -> Verdict:
    is_auto = settings["kind"] == "auto"
    advise(schema.coarser() if is_auto else schema, settings["n_records"])
    made = options.make_classifier(settings).set_params(domain=schema).plan()
    verdict = verdict_of(made)
    figures = {
        "domain": label,
        **made.to_dict(),
        "steps": [one.to_dict(made.budget) for one in made.announced_steps],
        "signal_to_noise": str(verdict),
        "peak_bytes": peak_bytes(made.forest if is_auto else made),
    }

    def show() -> None:
        screen = console()
        if is_auto:
            screen.print(kind_table(figures), figures["reason"], "", sep="\n")
        screen.print(share_table(figures))
        if isinstance(made, AutoPlan) and made.balance is not None:
            screen.print(EVEN)
        screen.print(f"Signal and noise: {verdict}.")
        screen.print(f"Memory: {memory_text(figures)}.")
        screen.print(FREE)

    print_and_write(figures, show, file, None, as_json=as_json)
    return verdict


def kind_table(figures: Mapping[str, Any]) -> Table:
    """Show the kind that is taken between those of less and of more signal."""
    below, signal, above = (figures[name] for name in ("below", "signal", "above"))
    rows = [(figures["forest"], "" if signal is None else f"{signal:,.0f}", "taken")]
    if below is not None:
        rows.insert(0, (below["forest"], f"up to {below['up_to']:,.0f}", ""))
    if above is not None:
        rows.append((above["forest"], f"from {above['from']:,.0f}", ""))
    title = f"Kinds of forest for {figures['domain']}, before any data"
    return table(title, "kind", "signal", "", rows=rows, fold=0)


def share_table(figures: Mapping[str, Any]) -> Table:
    title = f"Steps and their shares of {figures['claim']}"
    steps = figures["steps"]
    first, rest, last = (steps, [], []) if option_value(VOLUME) == "verbose" else fold_steps(steps)
    rows = [_step_cells(step) for step in first]
    if rest:
        share = sum(step["share"] for step in rest)
        rows.append((f"{len(rest)} more: mrf-matrix plan -v", f"{share:.2%}", "", ""))
    rows += [_step_cells(step) for step in last]
    return table(title, "step", "share", "sensitivity", "rms", rows=rows, fold=0)


def _step_cells(step: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return name, share, sensitivity and noise in words; what a choice decides has no noise."""
    name, share = step["measured"], f"{step['share']:.2%}"
    if step["sensitivity"] is None:
        return name, share, "", "as chosen"
    rms = "a choice" if step["is_choice"] else f"{step['rms']:.4g} records"
    return name, share, f"{step['sensitivity']:.4g}", rms


NO_BOUND = "no lower bound within --time-limit: give more seconds"

AIMS = {
    "total": "",
    "max": ", of the worst answer or group",
    "votes": ", of the votes of all cells",
}
"""Whose squared error a certificate bounds, by objective."""


def plan_table(figures: Mapping[str, Any]) -> Table:
    title = f"Plan for {figures['domain']}, before any data"
    return table(title, "figure", "value", rows=_plan_rows(figures), words=2, fold=1)


def _plan_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    unit = "leaf" if "rms_per_leaf" in figures else "vote"
    lines = [
        ("kind", f"{figures['kind']}, {figures['voting']} voting"),
        ("budget", f"{figures['claim']}, {figures['neighboring']} neighbours"),
        ("domain", f"{figures['attributes']} attributes, {count_text(figures['cells'])} cells, "
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
        ratio = f"within {figure_text(figures['certified_ratio'])} times the least squared error"
        in_time = figures["lower_bound"] is not None
        lines.append(("certified", f"{ratio}{aim}" if in_time else NO_BOUND))
    if "target_rms" in figures:
        least = f"at most {figure_text(figures['target_rms'][1])} records"
        lines.append(("target rms", f"{least}; the budget is the least found"))
    if figures.get("budget_bound") is not None:
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
    rows = (
        (size["name"], " × ".join(map(str, size["shape"])), f"{size['bytes']:,}")
        for size in figures["arrays"][:5]
    )
    return table("Largest arrays of the release", "array", "shape", "bytes", rows=rows, words=2)


def figure_text(figure: float | None) -> str:
    """Write a figure; None is one that is not finite."""
    return "infinite" if figure is None else f"{figure:.3g}"


def count_text(count: int) -> str:
    """Write a number of cells, with an exponent where it is large; a float may not hold it."""
    if count < 10**9:
        return f"{count:,}"
    return f"{count:.2e}" if count < 10**300 else magnitude(Fraction(count))
