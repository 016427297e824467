"""A release as JSON and arrays, and back: everything is checked before it is believed."""

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    flag_of,
    fraction_of,
    integer_of,
    line_of_text,
    object_of,
    one_line,
    versioned_of,
    whole_numbers,
    whole_of,
)
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.files.container import Container
from mrf_matrix.files.release_claims import Claims, shares_content, shares_of, verified_mechanism
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, budget_of
from mrf_matrix.mechanisms.budgets.claim import NEIGHBORING
from mrf_matrix.mechanisms.counts.cells import checked_sizes
from mrf_matrix.mechanisms.counts.counts import check_columns
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism
from mrf_matrix.mechanisms.measurement.release import (
    NOISE_KINDS,
    Drawn,
    MeasurementRecord,
    Noise,
    Release,
)
from mrf_matrix.mechanisms.statement import Claim, provenance_of, provenance_to_dict
from strategies.operator_files import decode, encode

FORMAT = "mrf_matrix.release"
SCHEMA_VERSION = 2

STRATEGY_KEYS = {"method", "matrix", "recovery", "scale", "sensitivity", "is_lossy"}
KEYS = {
    "format", "schema_version", "is_private", "noise", "noise_scale", "budget", "neighboring",
    "sizes", "n_classes", "strategy", "measured", "provenance", "domain",
}  # fmt: skip
SHARES = ("shares",)
"""Keys that only releases have whose noise several parties shared."""


def content_of(release: Release) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a release.

    Raises strategies.operator_files.OperatorFileError if a structure of the strategy has no form in
    files.
    """
    rounded = release.mechanism.rounded
    matrix, arrays = encode(rounded.matrix, "strategy/")
    recovery = None
    if not rounded.is_unbiased:
        recovery, more = encode(rounded.recovery, "recovery/")
        arrays |= more
    known, domain = release.measured, release.domain
    data: JsonObject = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "is_private": release.is_private,
        "noise": release.noise,
        "noise_scale": str(release.noise_scale),
        "budget": release.budget.to_dict(),
        "neighboring": release.neighboring,
        "sizes": list(release.sizes),
        "n_classes": release.n_classes,
        "strategy": {
            "method": release.method,
            "matrix": matrix,
            "recovery": recovery,
            "scale": str(rounded.scale),
            "sensitivity": str(rounded.column_sum),
            "is_lossy": rounded.is_lossy,
        },
        "provenance": provenance_to_dict(release.provenance),
        "measured": None
        if known is None
        else {
            "version": known.version,
            "measured_on": known.measured_on.isoformat(),
            "sampler": known.sampler,
        },
        "domain": None if domain is None else domain.to_dict(),
    }
    data |= shares_content(release)
    return data, arrays | {"answers": release.answers.astype("<i8", copy=False)}


def release_of(container: Container) -> tuple[Release, object]:
    """Return the release of a file, and its domain as plain values, which are not yet checked.

    Raises FieldError if the file claims more privacy than its noise gives; ValueError, TypeError,
    KeyError, ArithmeticError if something is missing, of another type, too large, or does not
    agree.
    """
    data = versioned_of(container.data, "release.json", FORMAT, SCHEMA_VERSION, KEYS, SHARES)
    noise = one_word("noise", data["noise"], NOISE_KINDS)
    budget = budget_of(data["budget"])
    provenance = provenance_of(data["provenance"])
    described = data["domain"]
    if isinstance(described, dict) and described.get("is_read_off") and not provenance.read_off:
        raise FieldError("provenance: expected a domain that was read off, for the domain says so.")
    if budget.is_infinite != (noise == "none"):
        raise FieldError(
            f"noise={noise!r}, {budget!r}: expected noise 'none' with an infinite budget only."
        )
    strategy = object_of(data["strategy"], "strategy", STRATEGY_KEYS)
    matrix, names = decode(strategy["matrix"], container.array, "strategy/")
    recovery = None
    if strategy["recovery"] is not None:
        recovery, more = decode(strategy["recovery"], container.array, "recovery/")
        names |= more
    if container.names != names | {"answers"}:
        raise FieldError("it has members that are no arrays of its release, or lacks some.")
    sizes = checked_sizes(whole_numbers(data["sizes"], "sizes", least=1))
    check_columns(matrix, sizes)
    classes = integer_of(data["n_classes"], "n_classes", least=1)
    answers = container.array("answers", "<i8", (matrix.shape[0], classes))
    claims, quorum = _claims(data, strategy, budget), None
    if "shares" in data:
        quorum, law = shares_of(data["shares"], budget, claims.noise_scale)
        claims = replace(claims, shares=(quorum, law))
    mechanism = verified_mechanism(matrix, recovery, claims)
    release = again_released(
        mechanism, answers.astype(np.int64), noise, sizes, provenance,
        measured=_measured(data["measured"]), quorum=quorum,
    )  # fmt: skip
    if data["is_private"] is not release.is_private:
        raise FieldError(
            f"is_private={str(data['is_private'])[:10]}: its noise, budget and provenance give "
            f"{release.is_private}."
        )
    return release, described


def again_released(
    mechanism: Mechanism,
    answers: Longs,
    noise: Noise,
    sizes: tuple[int, ...],
    provenance: Provenance,
    **said: Any,
) -> Release:
    """Return the release of a file, whose claim covers what it measured.

    Raises FieldError if no charge in its provenance does.
    """
    drawn = Drawn(answers, provenance, mechanism, noise, said.get("quorum"))
    release = Release(mechanism, drawn.answers, noise, sizes, _drawn=drawn, **said)
    check_covered(release.claim, mechanism.budget, mechanism.neighboring, noise)
    return release


def check_covered(claim: Claim, budget: PureDP | ZCDP, neighboring: str, noise: str) -> None:
    """Refuse the claim of a file that is less than what it holds has cost."""
    try:
        claim.check_covers(budget, neighboring, noise)
    except ValueError as error:
        raise FieldError(
            f"{one_line(error)} The file claims more privacy than its noise gives."
        ) from error


def _claims(data: JsonObject, strategy: JsonObject, budget: PureDP | ZCDP) -> Claims:
    scale = fraction_of(strategy["scale"], "scale")
    if not (scale and 0 < float(scale) < float("inf")):
        raise FieldError("scale: expected a positive number that a double can hold.")
    return Claims(
        budget=budget,
        neighboring=one_word("neighboring", data["neighboring"], NEIGHBORING),
        column_sum=whole_of(strategy["sensitivity"], "sensitivity"),
        noise_scale=fraction_of(data["noise_scale"], "noise_scale"),
        scale=scale,
        is_lossy=flag_of(strategy["is_lossy"], "is_lossy"),
        method=line_of_text(strategy["method"], "method", 1000),
    )


def _measured(data: object) -> MeasurementRecord | None:
    if data is None:
        return None
    known = object_of(data, "measured", ("version", "measured_on", "sampler"))
    day = date.fromisoformat(line_of_text(known["measured_on"], "measured_on", 10))
    version, sampler = (line_of_text(known[name], name) for name in ("version", "sampler"))
    return MeasurementRecord(version, day, sampler)
