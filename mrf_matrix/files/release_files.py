"""A release in a file, with its public domain: our own format, safe to read from anyone.

Everything is checked before it is believed. The claim is held against the release's own strategy
and noise. Whether the noise was drawn is the word of whoever wrote the file. What can be checked is
that noise of the stated law, added to the stated strategy, gives the privacy that is claimed.
"""

from dataclasses import replace
from datetime import date
from fractions import Fraction
from math import isclose
from os import PathLike, fspath
from pathlib import Path

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
    one_line,
    versioned_object,
    whole_numbers,
    whole_of,
)
from mrf_matrix.base.files import open_regular
from mrf_matrix.domain import Domain
from mrf_matrix.files.container import (
    MAX_BYTES,
    Container,
    ContainerError,
    ReleaseFileError,
    largest_file,
    write_container,
)
from mrf_matrix.mechanisms.budget import NEIGHBORING, ZCDP, PureDP, checked_neighboring
from mrf_matrix.mechanisms.counts import check_columns, checked_sizes
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, noise_for, squared_factor
from mrf_matrix.mechanisms.measurement.release import (
    NOISE_KINDS,
    DrawnAnswers,
    MeasurementRecord,
    Release,
    checked_release,
)
from mrf_matrix.mechanisms.noise import NoiseLaw
from mrf_matrix.mechanisms.rounding import (
    RoundedStrategy,
    check_entries,
    integer_form,
    is_nonnegative,
)
from mrf_matrix.mechanisms.shared_noise import Quorum, SharedDiscreteGaussian, SharedDiscreteLaplace
from mrf_matrix.mechanisms.statement import (
    budget_of,
    check_covered,
    provenance_of,
    provenance_to_dict,
)
from strategies.operator_files import OperatorFileError, decode, encode
from strategies.operators import Norm, Operator, Scaled

FACTORS = (1e-100, 1e100)  # range of what a strategy is multiplied by before it is rounded

AGREEMENT = 1e-6  # relative difference of a sensitivity in integers from the same in floats


QUORUM_KEYS = ("parties", "dropouts", "colluders")
ROUNDING = 1 - Fraction(1, 2**50)
"""The scale that is needed was rounded up to a double."""
LEAST_SQUARE = 2  # least σ² of each party's discrete Gaussian draw


def verified_mechanism(
    data: JsonObject,
    strategy: JsonObject,
    budget: PureDP | ZCDP,
    matrix: Operator,
    recovery: Operator | None,
) -> tuple[Mechanism, Quorum | None]:
    """Return the mechanism of a file, and on whom shares of its noise rest, if its claims hold.

    Raises FieldError if the strategy's sensitivity is larger than claimed, or the noise smaller
    than the budget needs: the file claims more privacy than its noise gives; ValueError, TypeError
    if the strategy is not one of integers.
    """
    scale = fraction_of(strategy["scale"], "scale")
    if not (scale and 0 < float(scale) < float("inf")):
        raise FieldError("scale: expected a positive number that a double can hold.")
    noise_scale = fraction_of(data["noise_scale"], "noise_scale")
    neighboring = one_word("neighboring", data["neighboring"], NEIGHBORING)
    column_sum = whole_of(strategy["sensitivity"], "sensitivity")
    shares = shares_of(data["shares"], budget, noise_scale) if "shares" in data else None
    is_lossy = flag_of(strategy["is_lossy"], "is_lossy")
    method = line_of_text(strategy["method"], "method", 1000)
    check_entries(matrix)
    if recovery is None:
        recovery = matrix
    else:
        _check_recovery(matrix, recovery)
    exact = exact_sensitivity(matrix, budget.norm)
    if not 0 < exact <= column_sum:
        raise FieldError(
            f"sensitivity={column_sum}: its strategy has {exact}, so the file claims "
            f"more privacy than its noise gives."
        )
    relation = checked_neighboring(neighboring)
    factor = squared_factor(relation, budget.norm, nonnegative=is_nonnegative(matrix))
    needed = noise_for(column_sum, factor, budget)
    quorum, law = shares or (None, needed)
    if budget.is_infinite:
        if noise_scale:
            raise FieldError("noise of an infinite budget: expected a scale of 0.")
        law = needed
    elif quorum is not None:
        check_scale(law, quorum, needed)
    elif noise_scale < needed.scale:
        raise FieldError(
            f"noise of scale {float(noise_scale):.6g}: {budget!r} under "
            f"{relation} neighbours needs {float(needed.scale):.6g}, so the file "
            f"claims more privacy than its noise gives."
        )
    else:
        law = type(needed)(noise_scale)
    rounded = RoundedStrategy(matrix, scale, budget.norm, column_sum, recovery, is_lossy)
    return Mechanism(rounded, law, budget, relation, factor, method), quorum


def _check_recovery(matrix: Operator, recovery: Operator) -> None:
    """Refuse a real strategy that does not round to the one that was measured."""
    small, large = FACTORS
    if not isinstance(recovery, Scaled) or not small <= abs(recovery.weight) <= large:
        raise FieldError(
            f"recovery is {recovery!r}: expected a strategy scaled by {small} to {large}."
        )
    with np.errstate(all="ignore"):
        again = integer_form(recovery.inner, recovery.weight).matrix
    (tree, arrays), (expected, others) = encode(again), encode(matrix)
    if tree != expected or not all(np.array_equal(arrays[name], others[name]) for name in others):
        raise FieldError(
            "recovery does not round to the strategy that was measured: expected answers to be "
            "recovered with the strategy that was selected."
        )


def exact_sensitivity(matrix: Operator, norm: Norm) -> int:
    """Return the exact sensitivity of integers, computed twice so that no sum wraps around."""
    exact = int(matrix.integer_sensitivity(norm))
    real = matrix.sensitivity(norm) ** (1 if norm == "l1" else 2)
    if not isclose(float(exact), real, rel_tol=AGREEMENT):
        raise FieldError(
            f"the strategy's sensitivity is {exact} in integers and {real:.6g} in floats: "
            f"expected sums that 64 bits hold."
        )
    return exact


def shares_content(release: Release) -> JsonObject:
    """Return the key of a release of shares as JSON, and nothing for any other."""
    if release.quorum is None:
        return {}
    quorum, law = release.quorum, release.law
    if isinstance(law, SharedDiscreteLaplace):
        drawn: JsonObject = {"shape": str(law.shape)}
    elif isinstance(law, SharedDiscreteGaussian):
        drawn = {"contributors": law.parties}
    else:
        raise FieldError(f"law: {law} is no noise of shares, so it has no form in files.")
    plain: JsonObject = {name: getattr(quorum, name) for name in QUORUM_KEYS}
    return {"shares": plain | drawn}


def shares_of(data: object, budget: PureDP | ZCDP, scale: Fraction) -> tuple[Quorum, NoiseLaw]:
    """Return on whom a release of a file rests, and the law of its noise.

    Raises FieldError if it is not of that form, or the noise is less than the honest contributors'
    must be.
    """
    pure = isinstance(budget, PureDP)
    found = object_of(data, "shares", {*QUORUM_KEYS, "shape" if pure else "contributors"})
    quorum = Quorum(*(integer_of(found[name], name) for name in QUORUM_KEYS))
    if pure:
        shape = fraction_of(found["shape"], "shape")
        # n contributors, of whom C collude, have a shape of at least n/(n - C) in all
        least = Fraction(quorum.parties, quorum.parties - quorum.colluders)
        if not least <= shape <= Fraction(quorum.parties, quorum.honest):
            raise FieldError(
                f"shares: shape {float(shape):.6g}, expected {least} to "
                f"{Fraction(quorum.parties, quorum.honest)}: the file claims more privacy than "
                f"its noise gives, or noise that nobody added."
            )
        return quorum, SharedDiscreteLaplace(scale, shape)
    count = integer_of(found["contributors"], "contributors", quorum.threshold, quorum.parties)
    if scale**2 < LEAST_SQUARE:
        raise FieldError(f"shares: a scale of {float(scale):.6g}, expected at least sqrt(2).")
    return quorum, SharedDiscreteGaussian(scale, count)


def check_scale(law: NoiseLaw, quorum: Quorum, needed: NoiseLaw) -> None:
    """Refuse shares whose honest part is narrower than the budget needs.

    For sums of discrete Gaussians the part of the budget that covers their being none is taken as
    spent: a narrower scale than without it is refused.
    """
    square = law.scale**2 * (quorum.honest if isinstance(law, SharedDiscreteGaussian) else 1)
    if square < needed.scale**2 * ROUNDING:
        raise FieldError(
            f"noise of shares: {law} of {quorum.honest} honest parties is less than the budget "
            f"needs, so the file claims more privacy than its noise gives."
        )


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
        "measured": known and {**vars(known), "measured_on": known.measured_on.isoformat()},
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
    data = versioned_object(container.data, "release.json", FORMAT, SCHEMA_VERSION, KEYS, SHARES)
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
    mechanism, quorum = verified_mechanism(data, strategy, budget, matrix, recovery)
    drawn = DrawnAnswers(answers.astype(np.int64), provenance, mechanism, noise, quorum)
    measured = _read_measurement(data["measured"])
    release = Release(mechanism, drawn.answers, noise, sizes, measured, None, quorum, drawn)
    check_covered(release.claim, budget, mechanism.neighboring, noise)
    if data["is_private"] is not release.is_private:
        raise FieldError(
            f"is_private={str(data['is_private'])[:10]}: its noise, budget and provenance give "
            f"{release.is_private}."
        )
    return release, described


def _read_measurement(data: object) -> MeasurementRecord | None:
    if data is None:
        return None
    known = object_of(data, "measured", ("version", "measured_on", "sampler"))
    day = date.fromisoformat(line_of_text(known["measured_on"], "measured_on", 10))
    version, sampler = (line_of_text(known[name], name) for name in ("version", "sampler"))
    return MeasurementRecord(version, day, sampler)


KIND = "release"


def save_release(
    release: Release,
    path: "str | PathLike[str]",
    domain: Domain | None = None,
    *,
    allow_nonprivate: bool = False,
) -> None:
    """Write a release to a file that `load_release` reads.

    The file is a zip of JSON and ``.npy`` arrays: noisy answers, integer strategy by its
    structure, budget, neighbouring relation, noise law, provenance and domain. It holds no
    record, no raw count and no seed.

    Parameters
    ----------
    release : Release
    path : str or path
        By custom it ends in ``.release``. An old file is replaced, whole or not at all.
    domain : Domain, optional
        The public domain that was measured, with the classes as its target; by default the one
        that the release carries, if any.
    allow_nonprivate : bool, default=False
        Write a release that is not private all the same: without noise its answers are counts
        of records, and research noise can be subtracted by whoever knows its seed. The file
        says so, and so does the release that is read from it.

    Raises
    ------
    ReleaseFileError
        If the release is not private and that was not allowed, or its strategy has a structure
        without a form in files, or is too large.
    TypeError, ValueError
        If it is no release, or the domain is not the one that was measured.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from mrf_matrix import Domain, PureDP, load_release, measure, reconstruct, save_release
    >>> from mrf_matrix.mechanisms import count_cells
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(1))
    >>> with TemporaryDirectory() as folder:
    ...     save_release(release, folder + "/three.release", Domain.from_sizes([3], n_classes=1))
    ...     loaded = load_release(folder + "/three.release")
    >>> bool((reconstruct(loaded, [[1, 1, 1]]) == reconstruct(release, [[1, 1, 1]])).all())
    True
    >>> loaded.domain.sizes
    (3,)
    """
    checked_release(release)
    if domain is not None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain is of type {type(domain).__name__}: expected a Domain.")
        release = replace(release, domain=domain)
    if not release.mechanism.is_proved:
        raise ReleaseFileError(
            f"release: its privacy is the claim of {release.mechanism.author}, which has no form "
            f"in files and no reader could check. Expected the noise that calibrate(...) gives "
            f"without law=, of a strategy of ours."
        )
    if not release.is_private and not allow_nonprivate:
        raise ReleaseFileError(
            f"{release.statement} Expected exact noise of a finite budget, or "
            f"allow_nonprivate=True."
        )
    try:
        data, arrays = content_of(release)
        write_container(Path(path), KIND, data, arrays)
    except (ContainerError, FieldError, OperatorFileError) as error:
        raise ReleaseFileError(f"the release cannot be written: {error}") from error


def load_release(path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES) -> Release:
    """Return the release of a file, ready to be asked.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    taken, and the strategy's sensitivity is computed again and held against the noise and the
    budget, so that a file cannot claim more privacy than its noise gives. Whether that noise was
    drawn at all, and from which records, is the writer's word.

    Parameters
    ----------
    path : str or path
        A file of `save_release`.
    max_bytes : int, default=128 MiB
        Most bytes of the arrays, unpacked; checking takes some ten times as much memory, and at
        most what ``strategies.operators.memory_cap`` allows for one array.

    Returns
    -------
    Release
        Its `domain` is the one that was saved, or None.

    Raises
    ------
    ReleaseFileError
        If the file is no release, is damaged, of a later version, too large, or claims what its
        content does not support.
    FileNotFoundError
        If there is no such file.
    """
    where = fspath(path)
    try:
        with open_regular(path, largest_file(max_bytes)) as file:
            release, plain = release_of(Container(file, KIND, max_bytes))
        return replace(release, domain=None if plain is None else Domain.from_dict(plain))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ReleaseFileError(f"{where}: {one_line(error)}") from error
