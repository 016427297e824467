"""Calibrate, measure, release, reconstruct."""

from mrf_matrix.mechanisms.measurement.measure import measure
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, calibrate
from mrf_matrix.mechanisms.measurement.provenance import Provenance
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from mrf_matrix.mechanisms.measurement.reconstruct import reconstruct
from mrf_matrix.mechanisms.measurement.release import Release

__all__ = [
    "Mechanism",
    "Provenance",
    "Quorum",
    "Release",
    "calibrate",
    "measure",
    "reconstruct",
]
