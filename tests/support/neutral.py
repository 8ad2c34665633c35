"""Examples as JSON and back, every type kept: what one Python wrote, another compares without the libraries of the first.

None, bool, int, str, list, dict    themselves (dicts with other keys than str do not occur)
float                               {"float": hex}
bytes                               {"bytes": base64}
tuple                               {"tuple": [...]}
array                               {"array": dtype, "shape": [...], "data": base64}; of objects, "data" is a list
NumPy scalar                        {"scalar": dtype, "data": base64}
examples inside an example          {"examples": [...]}
{}                                  {"dict": {}}, and so are all dicts
"""

import base64
from typing import Any

import numpy as np

__all__ = ["dump", "load"]


def dump(value: Any) -> Any:
    """Return ``value`` as what JSON can hold."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) is list:
        return [dump(item) for item in value]
    if type(value) is tuple:
        return {"tuple": [dump(item) for item in value]}
    if type(value) is dict:
        return {"dict": {key: dump(item) for key, item in value.items()}}
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"array": "object", "shape": value.shape, "data": [dump(item) for item in value.reshape(-1).tolist()]}
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": value.dtype.name, "shape": value.shape, "data": data}
    if isinstance(value, np.generic):
        return {"scalar": value.dtype.name, "data": base64.b64encode(value.tobytes()).decode()}
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return {"examples": [dump(value[place]) for place in range(len(value))]}
    raise TypeError(f"no neutral form for {type(value)}")


def load(form: Any) -> Any:
    """Return the value that ``dump`` gave ``form`` for; examples inside an example become ``("examples", [...])``."""
    if isinstance(form, list):
        return [load(item) for item in form]
    if not isinstance(form, dict):
        return form
    if "float" in form:
        return float.fromhex(form["float"])
    if "bytes" in form:
        return base64.b64decode(form["bytes"])
    if "tuple" in form:
        return tuple(load(item) for item in form["tuple"])
    if "dict" in form:
        return {key: load(item) for key, item in form["dict"].items()}
    if "examples" in form:
        return ("examples", [load(item) for item in form["examples"]])
    if form.get("array") == "object":
        array = np.empty(len(form["data"]), object)
        array[:] = [load(item) for item in form["data"]]
        return array.reshape(form["shape"])
    flat = np.frombuffer(base64.b64decode(form["data"]), _dtype(form.get("array") or form["scalar"]))
    return flat.reshape(form["shape"]) if "array" in form else flat[0]


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
