"""A posterior forest as a file: its release, the blocks that were measured, and the report.

Everything that predicts follows from these. Reading makes the strategy of the blocks anew and
compares it with the release's, so that no file can pass other answers off as tables of blocks. The
report must be the one that follows from the release; only its notes are the writer's word.
"""

from dataclasses import replace

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    list_of,
    versioned_of,
    whole_numbers,
)
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.training.posterior_forest import (
    PosteriorForestClassifier,
    posterior_report,
)
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.measured_once import release_and_domain, same_mechanism
from mrf_matrix.files.models.report import report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.release_record import content_of
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart, weighted_blocks

POSTERIOR_FORMAT = "mrf_matrix.posterior_model"
POSTERIOR_VERSION = 3
KEYS = {"format", "schema_version", "blocks", "weights", "release", "report"}

PosteriorModel = PosteriorForestClassifier | ReleasedPosteriorForestClassifier


def posterior_content(model: PosteriorModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a fitted posterior forest."""
    data, arrays = content_of(model.release_)
    measured = (
        model.measurement_ if isinstance(model, PosteriorForestClassifier) else model.measurement
    )
    content: JsonObject = {
        "format": POSTERIOR_FORMAT,
        "schema_version": POSTERIOR_VERSION,
        "blocks": [list(block) for block in measured.blocks],
        "weights": list(measured.weights),
        "release": data | {"domain": model.domain_.to_dict()},
        "report": model.privacy_report_.to_dict(),
    }
    return content, arrays


def posterior_of(container: Container) -> ReleasedPosteriorForestClassifier:
    """Return the posterior forest of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if
    something is missing, of another type, too large, or does not agree.
    """
    data = versioned_of(container.data, "model.json", POSTERIOR_FORMAT, POSTERIOR_VERSION, KEYS)
    release, domain = release_and_domain(container, data["release"])
    measured = _measurement(domain, release, data)
    claimed = report_of(data["report"])
    report = check_follows(claimed, posterior_report(measured, release, "", claimed.delta))
    forest = replace(measured.forest, provenance=report.provenance)  # blocks may follow from it
    measured = replace(measured, ensemble=replace(measured.ensemble, forest=forest))
    model = ReleasedPosteriorForestClassifier(measured, release, domain, report)
    _check_finite(model)
    return model


def _measurement(domain: Domain, release: Release, data: JsonObject) -> BlockPart:
    """Make the strategy of the blocks anew; refuse a release that measured anything else."""
    blocks = _blocks(data["blocks"], domain)
    weight, of_totals = whole_numbers(data["weights"], "weights", least=1, length=2)
    leaves, most = 1, len(release.answers)
    for block in blocks:  # before trees of this size are grown
        cells = 1
        for i in block:
            cells = min(cells * domain.sizes[i], most + 1)
        leaves += cells
    if leaves != most:
        raise FieldError(f"blocks of {leaves} leaves in all: expected {most}, as answered.")
    measured = weighted_blocks(
        domain,
        release.budget,
        blocks,
        (weight, of_totals),
        n_classes=domain.n_classes,
        neighboring=release.neighboring,
    )
    if not same_mechanism(measured.mechanism, release.mechanism):
        raise FieldError("its release did not measure the weighted leaves of its blocks.")
    return measured


def _blocks(data: object, domain: Domain) -> tuple[tuple[int, ...], ...]:
    """Return blocks of attributes, each of them once, in rising order in a block."""
    last = domain.n_attributes - 1
    blocks = [whole_numbers(one, "blocks", most=last) for one in list_of(data, "blocks", least=1)]
    places = [i for block in blocks for i in block]
    rising = all(block and list(block) == sorted(block) for block in blocks)
    if len(set(places)) < len(places) or not rising:
        raise FieldError("blocks: expected each attribute once, in rising order in a block.")
    return tuple(blocks)


def _check_finite(model: ReleasedPosteriorForestClassifier) -> None:
    """Refuse answers, absurd but possible, from which no number follows."""
    with np.errstate(all="ignore"):  # what overflows is found below
        posterior = model.posterior_
    found = [posterior.totals.values, *(fit.class_terms for fit in posterior.fits)]
    found += [one.logs for one in posterior.interactions]
    known = all(fit.covariance.is_finite for fit in posterior.fits)
    if not (known and all(bool(np.isfinite(array).all()) for array in found)):
        raise FieldError("no finite posterior follows from its answers.")
