"""A model as a file: a plan and its transcript, from which all else follows.

Reading makes the plan anew, so that shares, laws and sensitivities are computed and never read; a
curator without data then takes its steps again with what was told. Of the report, which follows,
the notes alone are stored. That noise was drawn remains the writer's word.
"""

from collections import deque
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    integer_of,
    line_of_text,
    list_of,
    object_of,
    part_of,
    versioned_object,
    whole_numbers,
)
from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.domain import Domain
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.files.container import (
    MAX_BYTES,
    Container,
    ContainerError,
    ModelFileError,
    write_container,
)
from mrf_matrix.kinds.labels import LABELS, POOL
from mrf_matrix.kinds.matrix import MATRIX, MatrixPlan
from mrf_matrix.kinds.model import Kind, Model
from mrf_matrix.kinds.multinomial import MULTINOMIAL
from mrf_matrix.kinds.private import PRIVATE
from mrf_matrix.kinds.tables import ADDITIVE, NAIVE_BAYES, TABLES
from mrf_matrix.kinds.two_stage import TWO_STAGE
from mrf_matrix.mechanisms import Mechanism, Release
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS, DrawnAnswers
from mrf_matrix.mechanisms.statement import Claim, check_covered, provenance_of, provenance_to_dict
from mrf_matrix.release.curator import Announce, Curator, Read
from mrf_matrix.release.plan import (
    Options,
    Places,
    Plan,
    RecordedTranscript,
    Step,
    Table,
    TableStep,
)
from strategies.operator_files import OperatorFileError

FORMAT = "mrf_matrix.learned_model"
VERSION = 1
ANSWERS = "<i8"
KEYS = {
    "format", "schema_version", "kind", "settings", "domain", "plan", "noise", "provenance",
    "outcomes", "n_answers", "notes", "digest",
}  # fmt: skip
MOST_ANSWERS, MOST_NOTES, MOST_CLASSES = 2**40, 100, 2**16

ALL = (
    PRIVATE, TABLES, ADDITIVE, LABELS, POOL, NAIVE_BAYES, MATRIX, MULTINOMIAL, TWO_STAGE,
)  # fmt: skip
KINDS: dict[str, Kind] = {one.name: one for one in ALL}


def model_content(model: Model) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a model.

    Raises FieldError if it is of a kind that no file is read as.
    """
    if type(KINDS.get(model.kind.name)) is not type(model.kind):  # a copy's kind is a copy
        raise FieldError(
            f"kind {model.kind.name!r} is not one of KINDS in mrf_matrix.files.model_file, so that "
            f"no file of it would be read: expected pickle, or an entry there."
        )
    plan, arrays = model.kind.to_dict(model.plan), model.kind.arrays(model.plan)
    told = model.transcript.to_record(model.kind.announced_to_dict)
    content: JsonObject = {
        "format": FORMAT,
        "schema_version": VERSION,
        "kind": model.kind.name,
        "settings": model.kind.settings,
        "domain": model.domain.to_dict(),
        "plan": plan,
        "noise": told.noise,
        "provenance": provenance_to_dict(told.provenance),
        "outcomes": list(told.outcomes),
        "n_answers": len(told.answers),
        "notes": list(model.report.notes),
        "digest": told.digest(plan, arrays),
    }
    return content, {"answers": told.answers.astype(ANSWERS), **arrays}


def check_fits_a_file(plan: Any) -> None:
    """Refuse a matrix forest whose file would be read with `max_bytes` only, before it is paid for.

    Parameters
    ----------
    plan : plan of any kind
        What a classifier's `plan` returns; `mrf_matrix.planning.weigh_signals` takes this function
        as its `check`.

    Raises
    ------
    FieldError
        If the file would be larger than what readers take unasked.
    OperatorFileError
        If the strategy has no form in files.
    """
    if not isinstance(plan, MatrixPlan):
        return
    answers = 8 * sum(part.n_measurements for part in plan.parts) * plan.n_classes
    size = answers + sum(one.nbytes for one in MATRIX.arrays(plan).values())
    if size > MAX_BYTES:
        raise FieldError(
            f"the model's file would have {size} bytes of arrays: expected at most {MAX_BYTES}, "
            f"which commands read. Give fewer or shallower trees, or a --strategy that "
            f"follows from parameters, such as identity. save_model in Python writes it, "
            f"and load_model(max_bytes=) reads it."
        )


def model_of(container: Container) -> Model:
    """Return the model of a file, learned again from its transcript.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_object(container.data, "model.json", FORMAT, VERSION, KEYS)
    kind = KINDS[one_word("kind", data["kind"], tuple(KINDS))]
    if data["settings"] != kind.settings:
        raise FieldError(
            f"settings={str(data['settings'])[:10]}: this version plans {kind.name} by settings "
            f"{kind.settings}. Read it with the version that wrote it."
        )
    domain = Domain.from_dict(data["domain"])
    if domain.target is None or domain.n_classes > MOST_CLASSES:
        raise FieldError(f"domain: expected a target, of at most {MOST_CLASSES} classes.")
    if len(sorted_classes(domain)[0]) != domain.n_classes:
        raise FieldError("domain: two classes of the target are the same.")
    recorded, given = _read_transcript(container, data), part_of(data, "plan")
    arrays: dict[str, Values] = {}

    def fetch(name: str, dtype: str, shape: tuple[int, ...]) -> Values:
        arrays[name] = container.array(name, dtype, shape)
        return arrays[name]

    plan = kind.plan_of(given, domain, fetch)
    if container.names != {"answers", *arrays}:
        raise FieldError("it has other arrays than its answers and those of its plan.")
    if line_of_text(data["digest"], "digest", 64) != recorded.digest(given, arrays):
        raise FieldError("digest: plan and outcomes are not those that were written.")
    check_covered(Claim(recorded.provenance), plan.budget, plan.neighboring, recorded.noise)
    with np.errstate(all="ignore"):  # what overflows is found below
        model = Model(kind, *Replay(plan, recorded).learn(kind))
        _check_finite(model)
    notes = tuple(line_of_text(one, "notes") for one in list_of(data["notes"], "notes", MOST_NOTES))
    return replace(model, notes=notes)


def _read_transcript(container: Container, data: JsonObject) -> RecordedTranscript:
    n_answers = integer_of(data["n_answers"], "n_answers", most=MOST_ANSWERS)
    answers = container.array("answers", ANSWERS, (n_answers,)).astype(np.int64)
    noise: Any = one_word("noise", data["noise"], NOISE_KINDS)
    outcomes = list_of(data["outcomes"], "outcomes")
    for one in outcomes:
        object_of(one, "outcomes", (), ("answers", "chosen", "announced"))
    return RecordedTranscript(noise, outcomes, answers, provenance_of(data["provenance"]))


def _check_finite(model: Model) -> None:
    """Refuse answers, absurd but possible, from which no finite posterior follows."""
    if not all(bool(np.isfinite(one).all()) for one in model.kind.numbers(model.posterior)):
        raise FieldError("no finite posterior follows from its answers.")


def save_model(model: Any, path: "str | PathLike[str]", *, allow_nonprivate: bool = False) -> None:
    """Write a fitted forest to a file that `load_model` reads.

    The file is a zip of JSON and ``.npy`` arrays: the domain, a plan, and the transcript of its
    release, from which all else follows. It holds no record, no raw count and no seed.

    Parameters
    ----------
    model : PrivateForestClassifier, or one of a matrix, two-stage, posterior, residual or pooled \
forest, of labels, of naive Bayes, or a multinomial forest with ``epsilon``
        Fitted, or from a file.
    path : str or path
        By custom it ends in ``.mrf``. An old file is replaced, whole or not at all.
    allow_nonprivate : bool, default=False
        Write a model of which nothing is claimed all the same: without noise its leaf values are
        counts of records, and research noise can be subtracted by whoever knows its seed.

    Raises
    ------
    ModelFileError
        If no privacy is claimed of the model and that was not allowed, or its release was measured
        otherwise than its strategy is by now.
    TypeError
        If it is no fitted classifier of this kind.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.matrix_forest import MatrixForestClassifier
    >>> from mrf_matrix.estimators.constructors import load_model
    >>> from mrf_matrix.files.model_file import save_model
    >>> monks = load_dataset("monks_1")
    >>> forest = MatrixForestClassifier(monks.domain, n_trees=4, max_depth=2, strategy="identity")
    >>> with TemporaryDirectory() as folder:
    ...     save_model(forest.fit(monks.X, monks.y), folder + "/monks.mrf")
    ...     loaded = load_model(folder + "/monks.mrf")
    >>> bool((loaded.predict(monks.X) == forest.predict(monks.X)).all())
    True
    """
    learned = getattr(model, "model_", None)
    if not isinstance(learned, Model):
        raise TypeError(
            f"model is a {type(model).__name__} that is not fitted, or of no kind that files hold: "
            f"expected a fitted PrivateForestClassifier, MatrixForestClassifier, "
            f"PosteriorForestClassifier, ResidualForestClassifier, PooledForestClassifier, "
            f"LabelTreeClassifier, PrivateNaiveBayesClassifier or private "
            f"MultinomialForestClassifier."
        )
    if learned.report.noise == "shares":
        raise ModelFileError(
            "model is made from noise that several parties shared, a claim that model files do not "
            "hold: expected save_release(release, path), and from_release(...) after loading it."
        )
    report = model.privacy_report_
    if not (allow_nonprivate or report.is_private):
        raise ModelFileError(
            f"model claims no privacy. {report.statement.rstrip('.')}. Expected a fit with exact "
            f"noise and a finite budget over a public domain, or allow_nonprivate=True."
        )
    try:
        write_container(Path(path), "model", *model_content(learned))
    except (ContainerError, FieldError, OperatorFileError) as error:
        raise ModelFileError(str(error)) from error


LARGEST_ANSWER = 2**62
"""Largest absolute answer in a file: sums of a few of them fit int64."""

LONGEST_CHOICE = 2**22
"""Whole numbers of a choice in a file: a forest has two a node at most."""

DEEPEST = 5
"""Plans within plans, of which a stranger's file may have many."""


class Replay(Curator):
    """A curator without data, who repeats a transcript, if the plan could have released it.

    Raises FieldError where it could not.
    """

    def __init__(
        self, plan: Plan, recorded: RecordedTranscript, parent: "Replay | None" = None
    ) -> None:
        super().__init__(plan, recorded.noise, parent)
        self._recorded = recorded
        self._root: Replay = self if parent is None else parent._root
        if self.depth > DEEPEST:
            raise FieldError(f"outcomes: plans within plans, {self.depth} deep.")
        if parent is None:
            if plan.budget.is_infinite != (recorded.noise == "none"):
                raise FieldError("noise: expected 'none' with an infinite budget only.")
            answers = recorded.answers
            if not bool(((answers >= -LARGEST_ANSWER) & (answers <= LARGEST_ANSWER)).all()):
                raise FieldError(f"answers: expected whole numbers up to {LARGEST_ANSWER}.")
            self._given, self._used = deque(recorded.outcomes), 0

    @property
    def provenance(self) -> Provenance:
        """What the file says, and that of the domain."""
        return join([self._recorded.provenance, self.plan.domain.provenance])

    def check_finished(self) -> None:
        """Refuse a transcript that has more than the plan."""
        super().check_finished()
        if self._root is self and (self._given or self._used != len(self._recorded.answers)):
            raise FieldError("outcomes: the plan has fewer steps, or fewer answers.")

    def _next_outcome(self, name: str) -> Any:
        """Return the next outcome, which must be of this name."""
        if not self._root._given:
            raise FieldError("outcomes: the plan has more steps.")
        return object_of(self._root._given.popleft(), "outcomes", {name})[name]

    def _take_measurement(self, step: TableStep, asked: Table, mechanism: Mechanism) -> Release:
        root, shape = self._root, (mechanism.rounded.matrix.shape[0], asked.n_columns)
        if self._next_outcome("answers") != list(shape):
            raise FieldError(f"outcomes: expected answers of shape {list(shape)}.")
        end = root._used + shape[0] * shape[1]
        if end > len(root._recorded.answers):
            raise FieldError("answers: the plan has more.")
        answers = root._recorded.answers[root._used : end].reshape(shape)
        root._used = end
        self._left.popleft()
        drawn = DrawnAnswers(answers, self.provenance, mechanism, self.noise, None)
        release = Release(mechanism, drawn.answers, self.noise, asked.sizes, _drawn=drawn)
        release.claim.check_covers(mechanism.budget, mechanism.neighboring, self.noise)
        return release

    def _take_choice(self, step: Step, asked: Options) -> Places:
        told = self._next_outcome("chosen")
        chosen = whole_numbers(told, "outcomes: chosen", longest=LONGEST_CHOICE)
        asked.check(chosen)
        self._left.popleft()
        return chosen

    def _take_announcement(self, announce: Announce, read: Read) -> Plan:
        return read(self._next_outcome("announced"))

    def _make_part(self, plan: Plan) -> "Replay":
        return Replay(plan, self._recorded, self)
