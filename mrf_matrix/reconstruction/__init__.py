"""Estimators of a workload's answers from releases: post-processing, at no cost in privacy."""

from mrf_matrix.reconstruction.additive_model import additive_model
from mrf_matrix.reconstruction.estimate import Estimate
from mrf_matrix.reconstruction.generalised import combine
from mrf_matrix.reconstruction.known_totals import with_known_totals
from mrf_matrix.reconstruction.likelihood import LikelihoodEstimate, maximum_likelihood
from mrf_matrix.reconstruction.nonnegative import nearest_on_simplex, nonnegative_least_squares
from mrf_matrix.reconstruction.shrinkage import ShrunkLeaves, shrink_leaves
from mrf_matrix.reconstruction.simplex import project_to_simplex
from mrf_matrix.reconstruction.vote_noise_share import vote_noise_share

__all__ = [
    "Estimate",
    "LikelihoodEstimate",
    "ShrunkLeaves",
    "additive_model",
    "combine",
    "maximum_likelihood",
    "nearest_on_simplex",
    "nonnegative_least_squares",
    "project_to_simplex",
    "shrink_leaves",
    "vote_noise_share",
    "with_known_totals",
]
