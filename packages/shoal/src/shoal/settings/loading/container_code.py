"""Which code a serving container runs, as its variables say it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

_UNPACKED = "/opt/ml/model/code"
ENTRY_POINT = "inference.py"
_LOADERS = ("LD_", "PYTHON")
"""Prefixes of variables by which the dynamic linker and Python find other code (ld.so(8),
"Environment"; Python, "Environment variables").
"""
_HARMLESS = frozenset(
    {
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONUTF8",
        "PYTHONFAULTHANDLER",
    }
)


def foreign_code_variable(environment: Mapping[str, str]) -> str | None:
    """Return the variable, with its value, that makes a container run code outside the archive's
    code/.

    None if there is none. Source: sagemaker-inference-toolkit, environment.py:
    SAGEMAKER_SUBMIT_DIRECTORY is the folder, SAGEMAKER_PROGRAM the module in it.
    """
    for name, value in environment.items():
        if name.startswith(_LOADERS) and name not in _HARMLESS:
            return f"{name}={value}"
    folder = environment.get("SAGEMAKER_SUBMIT_DIRECTORY", _UNPACKED)
    program = environment.get("SAGEMAKER_PROGRAM", ENTRY_POINT)
    if posixpath.normpath(folder) != _UNPACKED:
        return f"SAGEMAKER_SUBMIT_DIRECTORY={folder}"
    return (
        f"SAGEMAKER_PROGRAM={program}"
        if posixpath.normpath(program).startswith(("/", ".."))
        else None
    )
