"""Text series as positions in a list of distinct values, by each library's own hash table.

The libraries are not imported: the series that narwhals hands over brings its methods along.
Measured on a million rows with seven distinct values, one column: 18 ms (pandas), 20 ms (Arrow),
20 ms (polars); a dictionary look-up of Python strings takes 40 ms besides making the strings.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from mrf_matrix.base.arrays import Values

if TYPE_CHECKING:
    import narwhals as nw

Factors = tuple[Values, tuple[object, ...]]


def factorise(series: "nw.Series[Any]") -> Factors | None:
    """Return positions (-1 where null) and distinct values of a series of text.

    Returns None for a library without a route of its own.
    """
    native = series.to_native()
    if series.implementation.is_pandas_like():
        codes, levels = native.factorize()
        return np.asarray(codes), tuple(levels)
    if series.implementation.is_pyarrow():
        return arrow_factors(native)
    if series.implementation.is_polars():
        return polars_factors(series)
    return None


def arrow_factors(native: Any) -> Factors:
    """Factorise an Arrow chunked array; chunks may come with dictionaries of their own."""
    encoded = native.dictionary_encode().unify_dictionaries().combine_chunks()
    if hasattr(encoded, "chunks"):  # older pyarrow keeps a chunked array, of at most one chunk
        if encoded.num_chunks == 0:
            return np.empty(0, dtype=np.int32), ()
        encoded = encoded.chunk(0)
    return encoded.indices.cast("int64").fill_null(-1).to_numpy(), tuple(
        encoded.dictionary.to_pylist()
    )


def polars_factors(series: "nw.Series[Any]") -> Factors:
    """Factorise a polars series by the physical numbers of its categorical form.

    What those numbers index differs between polars' versions, so a level is read from the last
    row that has its number.
    """
    import narwhals as nw

    categorical = series.cast(nw.Categorical) if series.dtype == nw.String else series
    native = categorical.to_native()
    physical = native.to_physical()
    null = physical.is_null()
    rows = np.arange(len(series))
    numbers = physical.fill_null(0).to_numpy().astype(np.int64)
    if null.any():
        kept = ~null.to_numpy()
        rows, present = rows[kept], numbers[kept]
    else:
        kept, present = None, numbers
    last_row = np.full(int(present.max(initial=0)) + 1, -1)
    last_row[present] = rows
    used = np.flatnonzero(last_row >= 0)
    position = np.full(len(last_row), -1, dtype=np.int32)
    position[used] = np.arange(len(used))
    codes = position[numbers]
    if kept is not None:
        codes[~kept] = -1
    return codes, tuple(series[last_row[used].tolist()].to_list())
