"""Refuses to build or install into a Python that has AWS's own wheel.

Everything else is in pyproject.toml.
"""

import importlib.metadata
import sysconfig

# pip builds in an isolated environment, but with the target's interpreter: its own folders are the
# ones to look in.
_FOLDERS = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})

if any(importlib.metadata.distributions(name="smdistributed-dataparallel", path=_FOLDERS)):
    raise SystemExit(
        "smddp-local will not be installed over AWS's smdistributed-dataparallel, which is in"
        f" {_FOLDERS[0]}"
    )

import setuptools  # noqa: E402 (the refusal above must not depend on it)

setuptools.setup()
