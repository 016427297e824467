"""What operations cost on the reference machine: the one table of prices, each with its source.

The machine is one core of a cloud server with one thread of BLAS; another shifts all by its speed.
"fit" is a least-squares fit to the clock over eleven releases, of 300 to 65 000 draws and 1400 to
30 000 records; `tests/benchmarks/test_release_time.py` holds it against the clock. Prices are
seconds, if nothing else is said.
"""

START = 0.01
"""A release of nothing. Source: fit."""

LAPLACE_DRAW = 4.5e-6
"""One exact discrete Laplace draw by OpenDP. Source: fit."""

GAUSSIAN_DRAW = 8e-6
"""The same for discrete Gaussian noise. Source: fit."""

COUNTED = 9e-8
"""One entry of the strategy's columns at the occupied cells, in counting. Source: fit."""

COMPILED = 2.5e-6
"""One path: its masks, its value, its containment. Source: fit."""

MET = 1e-9
"""Meeting eight packed rows of paths with one code of one record. Source: fit."""

MULTIPLIED = 2e-11
"""One multiplication in dense linear algebra. Source: fit."""

COMPARED = 5e-10
"""One multiplication of masks, in the inner products of two paths. Source: fit."""

NEWTON_STEPS = 20
"""Steps to the posterior mode of a block: a count. Source: fit."""

NEWTON_STEP, NEWTON_CLASS = 4e-4, 1e-5
"""A step, and one class in it, of small tables. Source: fits of posteriors, timed."""

SOLVED, SUMMED = 2e-10, 3e-7
"""One class in a step, per cube of its terms (solving) and per cell and square of them (summing
their information); and per square of them. Source: fits of posteriors of 10 to 900 terms, timed."""

DECOMPOSED = 4e-10
"""One operation of a portfolio's singular value decompositions: 1e-10 in one of them
(``numpy.linalg.svd``, 20 m² n operations), and four to a portfolio. Source: timed, not fitted."""

VISIT, VISITED = 2e-3, 5e-10
"""A visit of a residual forest in one column, and in it each cube of the codes. Source: timed."""

SCORED = 1.5e-7
"""One record of a visit, in one column. Source: timed."""

WEIGHED = 4e-6
"""One count above several cuts, in a tree of labels. Source: timed."""
