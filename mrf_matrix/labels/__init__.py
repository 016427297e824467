"""Cells of a public partition that release their labels and nothing else."""

from mrf_matrix.labels.plan import LabelPlan, label_plan

__all__ = ["LabelPlan", "label_plan"]
