"""Refuses to build or install into a Python that has AWS's own wheel; everything else is in pyproject.toml."""

import importlib.metadata
import sysconfig

from setuptools import setup  # type: ignore[import-untyped, import-not-found, unused-ignore]

# pip builds in an isolated environment, but with the target's interpreter: its own folders are the ones to look in.
_FOLDERS = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})

if any(importlib.metadata.distributions(name="smdistributed-dataparallel", path=_FOLDERS)):
    raise SystemExit(
        "smddp-local is a CPU stand-in and will not be installed over AWS's smdistributed-dataparallel, which is present in " + _FOLDERS[0]
    )

setup()
