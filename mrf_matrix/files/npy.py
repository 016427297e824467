"""Arrays as ``.npy`` bytes, written and compared, never parsed.

The type and shape of an array are known before it is read, and with them its whole header. So the
header is compared byte for byte, and no parser ever sees what a stranger wrote.
"""

import numpy as np

from mrf_matrix.base.arrays import Values

HEADER_BYTES = 128


def header_of(dtype: str, shape: tuple[int, ...]) -> bytes:
    r"""Return the header of an array, in version 1.0 of NumPy's format, padded to 128 bytes.

    >>> header_of("<i4", (3,))[:9]
    b'\x93NUMPY\x01\x00v'
    """
    words = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    length = HEADER_BYTES - 10
    if len(words) >= length:
        raise ValueError(f"shape {shape} has too many dimensions for a file of ours.")
    text = words.ljust(length - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.encode("latin-1")


def bytes_of(array: Values) -> bytes:
    """Return an array as a ``.npy`` file."""
    plain = np.ascontiguousarray(array)
    return header_of(plain.dtype.str, plain.shape) + plain.tobytes()


def array_of(content: bytes, dtype: str, shape: tuple[int, ...]) -> Values:
    """Return the array of a ``.npy`` file that must have this type and shape.

    Raises ValueError if header or length are not exactly what `bytes_of` writes for them.

    >>> array_of(bytes_of(np.arange(3, dtype="<i4")), "<i4", (3,))
    array([0, 1, 2], dtype=int32)
    """
    header = header_of(dtype, shape)
    if content[:HEADER_BYTES] != header:
        raise ValueError(f"its header does not say {dtype} of shape {shape}")
    return np.frombuffer(content, dtype=dtype, offset=HEADER_BYTES).reshape(shape)
