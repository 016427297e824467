"""Model files that somebody changed, with the digest that fits what they hold by then."""

import json
import zipfile
from io import BytesIO

import numpy as np

from mrf_matrix import load_model
from mrf_matrix.files import write_container
from mrf_matrix.release.plan import Recorded


def parts_of(path):
    """Return the JSON of a model file, and its arrays by name."""
    with zipfile.ZipFile(path) as file:
        names = [one for one in file.namelist() if one.endswith(".npy")]
        read = np.lib.format.read_array
        arrays = {one.removesuffix(".npy"): read(BytesIO(file.read(one))) for one in names}
        return json.loads(file.read("model.json")), arrays


def fitting(data, arrays):
    """Give the JSON the digest that fits, where it can have one."""
    rest = {name: one for name, one in arrays.items() if name != "answers"}
    try:
        record = Recorded(data["noise"], data["outcomes"], arrays["answers"], None)
        data["digest"] = record.digest(data["plan"], rest)
    except (TypeError, KeyError, ValueError, AttributeError):
        pass
    return data


def rewritten(model, folder, change, *, fits=True):
    """Return the model of a file that somebody changed.

    `change` takes JSON and arrays, and changes them in place or returns other JSON.
    """
    model.save(folder / "before.mrf", allow_nonprivate=True)
    data, arrays = parts_of(folder / "before.mrf")
    found = change(data, arrays)
    data = data if found is None else found
    arrays["answers"] = arrays["answers"].astype("<i8")
    write_container(folder / "after.mrf", "model", fitting(data, arrays) if fits else data, arrays)
    return load_model(folder / "after.mrf")
