"""Refuses to build or install into a Python that has the real Horovod.

Everything else is in pyproject.toml.
"""

import importlib.metadata
import sysconfig

# pip builds in an isolated environment, but with the target's interpreter: its own folders are the
# ones to look in.
_FOLDERS = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})

if any(importlib.metadata.distributions(name="horovod", path=_FOLDERS)):
    raise SystemExit(
        f"horovod-local will not be installed over the real horovod, which is in {_FOLDERS[0]}"
    )

import setuptools  # noqa: E402 - the refusal must not need it

setuptools.setup()
