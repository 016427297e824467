"""An operator with plain values beside it, as one file without pickles."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from strategies.operator_files.codec import decode, encode
from strategies.operator_files.reader import OperatorFileError
from strategies.operators import MemoryCapError, Operator, check_allocation

VALUES = "values.json"
MOST_TEXT = 2**24
"""Bytes of the plain values and the operator's tree."""


def write_operator(
    operator: Operator, values: Mapping[str, object], path: "str | os.PathLike[str]"
) -> None:
    """Write an operator and plain values as a zip of JSON and ``.npy`` arrays, whole or not at all.

    Raises OperatorFileError if a structure has no form in files.
    """
    tree, arrays = encode(operator)
    text = json.dumps({"operator": tree, **values})
    place = Path(path)
    with NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as draft:
        try:
            np.savez(draft, allow_pickle=False, **{VALUES: np.frombuffer(text.encode(), np.uint8)})
            with zipfile.ZipFile(draft, "a") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            draft.close()
            os.replace(draft.name, place)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


def read_operator(path: "str | os.PathLike[str]") -> tuple[Operator, dict[str, object]]:
    """Return the operator and the plain values of a file, which may come from anyone.

    Raises OperatorFileError if it is no such file, or does not hold together; MemoryCapError if its
    arrays are larger than the memory cap.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {one.filename: one.file_size for one in archive.infolist()}
            check_allocation(f"arrays of {path}", (sum(sizes.values()),), 1)
            if sizes.get(f"{VALUES}.npy", MOST_TEXT) >= MOST_TEXT:
                raise OperatorFileError(f"{path} holds no operator, or one of too many parts.")
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        values = json.loads(arrays.pop(VALUES).tobytes())
        operator, _ = decode(values.pop("operator"), arrays)
    except (FileNotFoundError, PermissionError, MemoryError, MemoryCapError, OperatorFileError):
        raise
    except (OSError, zipfile.BadZipFile, ValueError, TypeError, KeyError, ArithmeticError,
            AttributeError, RecursionError) as error:  # fmt: skip
        raise OperatorFileError(f"{path} is no operator's file: {error}") from error
    return operator, values
