"""A naive Bayes classifier as a file: its release and the report, from which all else follows.

Reading makes the tables of single attributes anew and compares them with what the release measured.
The report must be the one that follows from the release; only its notes are the writer's word.
"""

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import FieldError, JsonObject, number_of, versioned_of
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released_naive_bayes import ReleasedNaiveBayesClassifier
from mrf_matrix.estimators.shared.reports import training_report
from mrf_matrix.estimators.training.naive_bayes import PrivateNaiveBayesClassifier
from mrf_matrix.estimators.training.naive_bayes_votes import LARGEST_ALPHA, LEAST_ALPHA
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.measured_once import release_and_domain, same_mechanism
from mrf_matrix.files.models.report import report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.release_record import content_of
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart, measured_by_paths, single_attributes
from mrf_matrix.planning.kinds.words import kind_of
from strategies.operators import RowKronecker

NAIVE_BAYES_FORMAT = "mrf_matrix.naive_bayes_model"
NAIVE_BAYES_VERSION = 2
KEYS = {"format", "schema_version", "alpha", "release", "report"}

NaiveBayesModel = PrivateNaiveBayesClassifier | ReleasedNaiveBayesClassifier


def naive_bayes_content(model: NaiveBayesModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a fitted naive Bayes classifier."""
    data, arrays = content_of(model.release_)
    content: JsonObject = {
        "format": NAIVE_BAYES_FORMAT,
        "schema_version": NAIVE_BAYES_VERSION,
        "alpha": float(model.alpha),
        "release": data | {"domain": model.domain_.to_dict()},
        "report": model.privacy_report_.to_dict(),
    }
    return content, arrays


def naive_bayes_of(container: Container) -> ReleasedNaiveBayesClassifier:
    """Return the naive Bayes classifier of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_of(container.data, "model.json", NAIVE_BAYES_FORMAT, NAIVE_BAYES_VERSION, KEYS)
    alpha = number_of(data["alpha"], "alpha", least=LEAST_ALPHA, most=LARGEST_ALPHA)
    release, domain = release_and_domain(container, data["release"])
    measured = _measurement(domain, release)
    claimed = report_of(data["report"])
    follows = training_report(kind_of("naive_bayes"), (measured,), (release,), claimed.delta)
    report = check_follows(claimed, follows)
    return ReleasedNaiveBayesClassifier(measured, release, domain, report, alpha=alpha)


def _measurement(domain: Domain, release: Release) -> BlockPart:
    """Make the tables anew; refuse a release that measured anything else."""
    leaves = 1 + sum(size for size in domain.sizes if size > 1)
    if leaves != len(release.answers):
        raise FieldError(f"answers of {len(release.answers)} rows: expected {leaves}.")
    measured = single_attributes(domain, release.budget, release.neighboring)
    if isinstance(release.mechanism.rounded.matrix, RowKronecker):  # as files of before hold it
        measured = measured_by_paths(measured)
    if not same_mechanism(measured.mechanism, release.mechanism):
        raise FieldError("its release did not measure the tables of single attributes.")
    return measured
