"""A release as JSON and arrays, and back: everything is checked before it is believed."""

from dataclasses import replace
from datetime import date
from typing import Any, cast

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.files.container import Container
from mrf_matrix.files.fields import (
    checked_object,
    checked_version,
    fraction_of,
    line_of_text,
    one_of,
    whole_of,
)
from mrf_matrix.files.release_claims import Claims, ReleaseFileError, verified_mechanism
from mrf_matrix.files.release_shares import shares_content, shares_of
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.neighboring import NEIGHBORING
from mrf_matrix.mechanisms.counts.cells import checked_sizes
from mrf_matrix.mechanisms.counts.counts import check_columns
from mrf_matrix.mechanisms.measurement.provenance import Provenance
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS, PRIVATE_NOISE, Noise, Release
from strategies.operator_files import decode, encode

FORMAT = "mrf_matrix.release"
SCHEMA_VERSION = 1
MAX_ATTRIBUTES = 100_000
MAX_CLASSES = 2**31

BUDGETS: dict[str, type[PureDP] | type[ZCDP]] = {"epsilon": PureDP, "rho": ZCDP}
STRATEGY_KEYS = {"method", "matrix", "recovery", "scale", "sensitivity", "is_lossy"}
KEYS = {
    "format",
    "schema_version",
    "is_private",
    "noise",
    "noise_scale",
    "budget",
    "neighboring",
    "sizes",
    "n_classes",
    "strategy",
    "provenance",
    "domain",
}
READ_OFF_KEY = "domain_read_off"
"""True where the domain was read off the records; missing elsewhere."""


SHARES = {"shares"}
"""The key of releases whose noise several parties shared; no other has it."""


def content_of(release: Release) -> tuple[dict[str, Any], dict[str, Values]]:
    """Return the JSON and the arrays of a release.

    Raises
    ------
    strategies.operator_files.OperatorFileError
        If a structure of the strategy has no form in files.
    """
    rounded, budget = release.mechanism.rounded, release.budget
    matrix, arrays = encode(rounded.matrix, "strategy/")
    recovery = None
    if not rounded.is_unbiased:
        recovery, more = encode(rounded.recovery, "recovery/")
        arrays |= more
    known, domain = release.provenance, release.domain
    data = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "is_private": release.is_private,
        "noise": release.noise,
        "noise_scale": str(release.noise_scale),
        "budget": {budget.parameter: str(budget.amount)},
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


def release_of(container: Container) -> tuple[Release, Any]:
    """Return the release of a file, and its domain as plain values, which are not yet checked.

    Raises
    ------
    ReleaseFileError
        If the file claims more privacy than its noise gives.
    ValueError, TypeError, KeyError, ArithmeticError
        If something is missing, of another type, too large, or does not agree.
    """
    keys = _keys(container.data) | SHARES.intersection(container.data)
    data = checked_object(container.data, keys, "release.json")
    if data.get(READ_OFF_KEY, True) is not True:
        raise ReleaseFileError(f"{READ_OFF_KEY}: expected true, or nothing.")
    checked_version(data, FORMAT, SCHEMA_VERSION)
    noise = cast(Noise, one_of(data["noise"], NOISE_KINDS, "noise"))
    budget = budget_of(data["budget"])
    read_off = READ_OFF_KEY in data
    private = noise in PRIVATE_NOISE and not read_off
    if budget.is_infinite != (noise == "none") or data["is_private"] is not private:
        raise ReleaseFileError(
            f"noise={noise!r}, {budget!r}, is_private={str(data['is_private'])[:10]}: expected an "
            f"infinite budget with noise 'none' only, and a private release with 'exact' or "
            f"'shares' only, over a domain that was not read off the records."
        )
    strategy = checked_object(data["strategy"], STRATEGY_KEYS, "strategy")
    matrix, names = decode(strategy["matrix"], container.array, "strategy/")
    recovery = None
    if strategy["recovery"] is not None:
        recovery, more = decode(strategy["recovery"], container.array, "recovery/")
        names |= more
    if container.names != names | {"answers"}:
        raise ReleaseFileError("it has members that are no arrays of its release, or lacks some.")
    sizes = _sizes(data["sizes"])
    check_columns(matrix, sizes)
    answers = container.array("answers", "<i8", (matrix.shape[0], _classes(data["n_classes"])))
    claims, quorum = _claims(data, strategy, budget), None
    if "shares" in data:
        quorum, law = shares_of(data["shares"], budget, claims.noise_scale)
        claims = replace(claims, shares=(quorum, law))
    mechanism = verified_mechanism(matrix, recovery, claims)
    native = answers.astype(np.int64)
    release = Release(
        mechanism,
        native,
        noise,
        sizes,
        _provenance(data["provenance"]),
        domain_read_off=read_off,
        quorum=quorum,
    )
    return release, data["domain"]


def _keys(data: object) -> set[str]:
    """Return the keys that are expected: one of them only where it denies something."""
    denies = isinstance(data, dict) and READ_OFF_KEY in data
    return KEYS | {READ_OFF_KEY} if denies else KEYS


def budget_of(data: object) -> PureDP | ZCDP:
    """Return the exact budget of ``{"epsilon": "1/2"}`` or ``{"rho": "inf"}``."""
    if not isinstance(data, dict) or len(data) != 1 or not set(data) <= set(BUDGETS):
        raise ReleaseFileError('budget: expected {"epsilon": "1/2"} or {"rho": "1/2"}.')
    name, text = next(iter(data.items()))
    return BUDGETS[name](float("inf") if text == "inf" else fraction_of(text, name))


def _claims(data: dict[str, Any], strategy: dict[str, Any], budget: PureDP | ZCDP) -> Claims:
    scale = fraction_of(strategy["scale"], "scale")
    if not (scale and 0 < float(scale) < float("inf")):
        raise ReleaseFileError("scale: expected a positive number that a double can hold.")
    if type(strategy["is_lossy"]) is not bool:
        raise ReleaseFileError("is_lossy: expected true or false.")
    return Claims(
        budget=budget,
        neighboring=one_of(data["neighboring"], NEIGHBORING, "neighboring"),
        column_sum=whole_of(strategy["sensitivity"], "sensitivity"),
        noise_scale=fraction_of(data["noise_scale"], "noise_scale"),
        scale=scale,
        is_lossy=strategy["is_lossy"],
        method=line_of_text(strategy["method"], "method", 1000),
    )


def _sizes(data: object) -> tuple[int, ...]:
    if not isinstance(data, list) or len(data) > MAX_ATTRIBUTES:
        raise ReleaseFileError(f"sizes: expected a list of at most {MAX_ATTRIBUTES}.")
    if any(type(size) is not int or size >= 2**31 for size in data):
        raise ReleaseFileError("sizes: expected whole numbers below 2**31.")
    return checked_sizes(data)


def _classes(data: object) -> int:
    if type(data) is not int or not 0 < data < MAX_CLASSES:
        raise ReleaseFileError("n_classes: expected a positive whole number below 2**31.")
    return data


def _provenance(data: object) -> Provenance | None:
    if data is None:
        return None
    known = checked_object(data, {"version", "measured_on", "sampler"}, "provenance")
    day = date.fromisoformat(line_of_text(known["measured_on"], "measured_on", 10))
    return Provenance(known["version"], day, known["sampler"])
