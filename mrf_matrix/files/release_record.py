"""A release as JSON and arrays, and back: everything is checked before it is believed."""

from dataclasses import replace
from datetime import date

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    flag_of,
    fraction_of,
    integer_of,
    line_of_text,
    object_of,
    versioned_of,
    whole_numbers,
    whole_of,
)
from mrf_matrix.files.container import Container
from mrf_matrix.files.release_claims import Claims, shares_content, shares_of, verified_mechanism
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, budget_of
from mrf_matrix.mechanisms.budgets.claim import NEIGHBORING
from mrf_matrix.mechanisms.counts.cells import checked_sizes
from mrf_matrix.mechanisms.counts.counts import check_columns
from mrf_matrix.mechanisms.measurement.release import (
    NOISE_KINDS,
    PRIVATE_NOISE,
    Provenance,
    Release,
)
from strategies.operator_files import decode, encode

FORMAT = "mrf_matrix.release"
SCHEMA_VERSION = 1

STRATEGY_KEYS = {"method", "matrix", "recovery", "scale", "sensitivity", "is_lossy"}
KEYS = {
    "format", "schema_version", "is_private", "noise", "noise_scale", "budget", "neighboring",
    "sizes", "n_classes", "strategy", "provenance", "domain",
}  # fmt: skip
READ_OFF_KEY = "domain_read_off"
"""True where the domain was read off the records; missing elsewhere. As "shares" is, which only
releases have whose noise several parties shared."""


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
    known, domain = release.provenance, release.domain
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
        "provenance": None
        if known is None
        else {
            "version": known.version,
            "measured_on": known.measured_on.isoformat(),
            "sampler": known.sampler,
        },
        "domain": None if domain is None else domain.to_dict(),
    }
    if release.domain_read_off:
        data[READ_OFF_KEY] = True
    data |= shares_content(release)
    return data, arrays | {"answers": release.answers.astype("<i8", copy=False)}


def release_of(container: Container) -> tuple[Release, object]:
    """Return the release of a file, and its domain as plain values, which are not yet checked.

    Raises FieldError if the file claims more privacy than its noise gives; ValueError, TypeError,
    KeyError, ArithmeticError if something is missing, of another type, too large, or does not
    agree.
    """
    optional = (READ_OFF_KEY, "shares")
    data = versioned_of(container.data, "release.json", FORMAT, SCHEMA_VERSION, KEYS, optional)
    if data.get(READ_OFF_KEY, True) is not True:
        raise FieldError(f"{READ_OFF_KEY}: expected true, or nothing.")
    noise = one_word("noise", data["noise"], NOISE_KINDS)
    budget = budget_of(data["budget"])
    read_off = READ_OFF_KEY in data
    described = data["domain"]
    if not read_off and isinstance(described, dict) and described.get("is_read_off"):
        raise FieldError(f"{READ_OFF_KEY}: expected true, for the domain says that it was.")
    private = noise in PRIVATE_NOISE and not read_off
    if budget.is_infinite != (noise == "none") or data["is_private"] is not private:
        raise FieldError(
            f"noise={noise!r}, {budget!r}, is_private={str(data['is_private'])[:10]}: expected an "
            f"infinite budget with noise 'none' only, and a private release with 'exact' or "
            f"'shares' only, over a domain that was not read off the records."
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
    known = _provenance(data["provenance"])
    release = Release(
        mechanism, answers.astype(np.int64), noise, sizes, known,
        domain_read_off=read_off, quorum=quorum,
    )  # fmt: skip
    return release, described


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


def _provenance(data: object) -> Provenance | None:
    if data is None:
        return None
    known = object_of(data, "provenance", ("version", "measured_on", "sampler"))
    day = date.fromisoformat(line_of_text(known["measured_on"], "measured_on", 10))
    version, sampler = (line_of_text(known[name], name) for name in ("version", "sampler"))
    return Provenance(version, day, sampler)
