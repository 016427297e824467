"""Options that several subcommands share, their types, and the kinds that they name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

import mrf_matrix
from mrf_matrix import streams
from mrf_matrix.base.files import FileFormat
from mrf_matrix.base.kinds import KINDS, TYPED, kind_of_arguments
from mrf_matrix.cli.number_options import exact_number
from mrf_matrix.datasets import load_dataset
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budget import claiming_budgets

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What adds options to a command; each subcommand says its own help where it differs."""

NEIGHBORING = ("add_remove", "replace_one")
SPLITS = ("multiway", "binary")
VOTINGS = ("hard", "weight", "product", "shares", "posterior")
SHRINKAGES = ("none", "votes", "leaves")
"""As in `mrf_matrix.estimators`, which is not imported for a list of words."""

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW = click.Path(dir_okay=False, path_type=Path)
"""A file that is there, and one to write."""


def comma_words(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    if not words or len(set(words)) < len(words):
        raise click.BadParameter(f"{value!r}: expected distinct names separated by commas")
    return words


def is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, click.core.ParameterSource.DEFAULT)


def refuse_options(strange: Sequence[str], of: str) -> None:
    given = [name for name in strange if is_given(name)]
    if given:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise click.ClickException(f"{options}: no option of {of}. Leave it out.")


def combine_options(*options: Decorator) -> Decorator:
    """Add several options, in this order in the help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def budget(
    epsilon: str = "Pure-DP budget [default: 1].", rho: str = "zCDP budget, instead of --epsilon."
) -> Decorator:
    return combine_options(
        click.option("--epsilon", callback=exact_number, help=epsilon),
        click.option("--rho", callback=exact_number, help=rho),
    )


def delta() -> Decorator:
    return click.option(
        "--delta",
        type=float,
        default=0.0,
        show_default=False,
        help="Claim (ε, δ)-DP at every ε: by Gaussian noise, or the better law where several "
        "plans are compared. [default: 0, pure]",
    )


def domain(help: str = "Domain file (JSON) of the records' files.") -> Decorator:
    """Add --domain, the schema of a file of records, and --target."""
    return combine_options(
        click.option("--domain", "domain_file", type=FILE, help=f"{help} Required for files."),
        click.option("--target", help="Column of the classes, if the domain file does not say it."),
    )


def domain_with_target(file: Path | None, target: str | None) -> Domain | None:
    if file is None:
        if target is not None:
            raise click.ClickException(
                f"--target {target}: expected a --domain file to go with it."
            )
        return None
    domain = Domain.load(file)
    if target is None or (domain.target is not None and domain.target.name == target):
        return domain
    if domain.target is not None:
        raise click.ClickException(
            f"--target {target}: {file} has the target {domain.target.name!r} already."
        )
    if target not in domain.names:
        raise click.ClickException(f"--target {target}: {file} has no attribute of that name.")
    others = [name for name in domain.names if name != target]
    attribute = next(one for one in domain.attributes if one.name == target)
    return replace(domain.select(others), target=attribute)


def check_is_public(domain: Domain | None, output: Path) -> None:
    """Refuse a domain over which nothing is private, before anything is drawn for a file."""
    if domain is not None and domain.is_read_off:
        raise click.ClickException(
            f"--domain: it was read off records, so nothing over it is private and {output} would "
            f"not be written. Expected a domain that was known before: `mrf-matrix domain new`."
        )


def file_format() -> Decorator:
    """Add --separator, --decimal and --encoding of text files, passed on as one `file_format`.

    It goes below `user_errors`, which prints the errors of an invalid one.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call_with_format(
            *args: Any, separator: Any, decimal: Any, encoding: str, **rest: Any
        ) -> Any:
            told = "\t" if separator in ("\\t", "tab") else separator
            return command(*args, file_format=FileFormat(told, decimal, encoding), **rest)

        return combine_options(
            click.option(
                "--separator",
                metavar="MARK",
                help="Character between the fields of a CSV file: ';', '|' or tab. [default: a "
                "comma, a tab in .tsv]",
            ),
            click.option(
                "--decimal",
                type=click.Choice([".", ","]),
                default=".",
                help="Decimal mark of the numbers in a CSV file.",
            ),
            click.option(
                "--encoding",
                default="utf-8",
                help="Encoding of a CSV file: latin-1, cp1252, utf-16.",
            ),
        )(call_with_format)

    return decorate


class LedgerFile(click.Path):
    """The file of a ledger, which is there: a total is decided before anything is charged."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return its path; say how a ledger is made where there is none."""
        if not Path(value).exists():
            self.fail(
                f"File {str(value)!r} does not exist. Make a ledger first, with the total that its "
                f"records may ever cost: mrf-matrix ledger {value} --epsilon E",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def ledger(help: str) -> Decorator:
    kind = LedgerFile(dir_okay=False, path_type=Path)
    return click.option("--ledger", "ledger_file", type=kind, help=help)


def overwrite(what: str) -> Decorator:
    return click.option("--overwrite", is_flag=True, help=f"Replace {what} that is there already.")


def n_blocks() -> Decorator:
    least = click.IntRange(min=1)
    return click.option("--n-blocks", type=least, help="Blocks of tables. [default: chosen]")


def n_records() -> Decorator:
    """Add --n-records: how many there are, where that is public."""
    return click.option(
        "--n-records",
        type=click.IntRange(min=1),
        help="Public number of records [default: as published].",
    )


def n_trees(help: str = "Trees in the forest.") -> Decorator:
    return click.option("--n-trees", default=128, help=help)


def splits(help: str | None = "Kind of split.") -> Decorator:
    return click.option("--splits", type=click.Choice(SPLITS), default="multiway", help=help)


def strategy(help: str = "Strategy family, or auto for the best of all.") -> Decorator:
    return click.option("--strategy", default="auto", help=help)


def neighboring(help: str | None = "Neighbouring relation.") -> Decorator:
    return click.option(
        "--neighboring", type=click.Choice(NEIGHBORING), default="add_remove", help=help
    )


def random_state(help: str = "Seed of the public structure.") -> Decorator:
    """Add --random-state, for what may be reproduced: never for the noise of a release."""
    seed = click.IntRange(0, 2**32 - 1)  # what scikit-learn takes
    return click.option("--random-state", type=seed, default=0, help=help)


def time_limit(seconds: float, help: str = "Seconds for each strategy.") -> Decorator:
    return click.option("--time-limit", default=seconds, help=help)


def parties(*more: Decorator) -> Decorator:
    """Add --dropouts, --colluders and --remove-excess of a federation, after other options."""
    return combine_options(
        *more,
        click.option("--dropouts", default=0, help="Parties that may vanish."),
        click.option("--colluders", default=0, help="Parties that may collude."),
        click.option(
            "--remove-excess", is_flag=True, help="Parties take noise that nobody needs off again."
        ),
    )


def results(
    place: str, *, table: str = "tables", record_and: str = "pictures", picture: str = "pictures"
) -> Decorator:
    """Add --output, --json and --no-pictures: where results go, and which."""
    return combine_options(
        click.option(
            "--output",
            type=click.Path(file_okay=False, path_type=Path),
            default=None,
            help=f"Folder for the JSON file and {record_and} [default: results/{place}].",
        ),
        click.option("--json", "as_json", is_flag=True, help=f"Print the JSON instead of {table}."),
        click.option("--no-pictures", is_flag=True, help=f"Draw no {picture}."),
    )


COMMON = ("epsilon", "delta", "rho", "neighboring", "n_records")
"""Options that all classifiers take."""

OPTIONS = tuple(dict.fromkeys(name for one in KINDS.values() for name in one.options))
"""Options that not every kind takes."""


def kind(
    auto: str = KINDS["auto"].about, words: Sequence[str] = TYPED, default: str = "auto"
) -> Decorator:
    told = " ".join(f"{word}: {auto if word == 'auto' else KINDS[word].about}." for word in words)
    asks = " An option of one kind only asks for that kind." * (default == "auto")
    return click.option("--kind", type=click.Choice(words), default=default, help=told + asks)


def model() -> Decorator:
    """Add options of single kinds that are not about trees or blocks."""
    return combine_options(
        click.option(
            "--beside",
            type=click.Choice(["tables", "additive"]),
            default="tables",
            help="What is beside the tree of pool.",
        ),
        click.option(
            "--alpha", type=float, default=1.0, help="Records that naive_bayes adds to every count."
        ),
    )


def checked_kind(named: str, among: Sequence[str] = OPTIONS) -> str:
    """Return the kind: that of the options that were given, where none was named.

    Refuses options that will not be used, before anything is read or spent. `among`: those that
    belong to a kind.
    """
    given = [name for name in among if is_given(name)]
    if not is_given("kind"):
        asked = kind_of_arguments(given)
        named = named if asked == "auto" else asked
    refuse_options([name for name in given if name not in KINDS[named].options], f"--kind {named}")
    return named


def make_classifier(settings: Mapping[str, Any], ledger: object = None) -> Any:
    import mrf_matrix.estimators as estimators

    kind = KINDS[settings["kind"]]
    names = (*COMMON, *kind.options)
    given = {name: settings[name] for name in names if name in settings}
    if "n_blocks" in given and given["n_blocks"] is None:
        given["n_blocks"] = "auto"
    return getattr(estimators, kind.estimator)(ledger=ledger, **given)


def check_is_model(kind: str) -> None:
    if KINDS[kind].answers_queries:
        raise click.ClickException(
            f"--kind {kind}: it answers queries from the records, which no model file holds. "
            f"Expected another kind, or {KINDS[kind].estimator} in Python."
        )


def holds_records(settings: Mapping[str, Any]) -> bool:
    """Tell whether a kind asked for by name needs every record by itself."""
    kind, beside = settings["kind"], settings["beside"]
    return KINDS[beside if kind == "pool" else kind].holds_records


def ledger_request(
    model: Any, settings: Mapping[str, Any], domain: Domain | None
) -> "mrf_matrix.PureDP | mrf_matrix.ZCDP | None":
    """Return what a fit will ask of a ledger, if that is known before the records are read.

    Where laws of noise are compared, most classifiers do so, and check, before they read.
    """
    budgets = claiming_budgets(model.epsilon, model.delta, model.rho)
    if len(budgets) == 1 or settings["kind"] == "matrix":
        return budgets[-1]
    if domain is None or not holds_records(settings):
        return None
    budget: mrf_matrix.PureDP | mrf_matrix.ZCDP = model.set_params(domain=domain).plan().budget
    return budget


def read_records(data: str, domain: Domain, file_format: FileFormat) -> tuple[dict[str, Any], Any]:
    import numpy as np

    files = streams.data_files(Path(data))
    read = partial(load_dataset, domain=domain, extra="ignore", file_format=file_format)
    parts = [read(str(file)) for file in files]
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in domain.names
    }
    return columns, np.concatenate([part.y for part in parts])
