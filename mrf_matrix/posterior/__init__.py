"""Posteriors of forests whose trees are whole tables of disjoint attributes, from one release."""

from mrf_matrix.posterior.block_table import BlockTable
from mrf_matrix.posterior.class_totals import ClassTotals, class_totals
from mrf_matrix.posterior.product_posterior import ProductPosterior, product_posterior

__all__ = ["BlockTable", "ClassTotals", "ProductPosterior", "class_totals", "product_posterior"]
