"""A CPU stand-in for the part of Horovod that data parallel scripts call.

It has the same imports and names, with MPI underneath. Importing it raises HorovodConflictError
where the real Horovod is installed.
"""

from importlib import metadata

from .errors import HorovodConflictError

__version__ = "0.1.0+local"
"""The local part says in every log that this is not Horovod."""
IS_LOCAL = True
"""Horovod has no such attribute: `getattr(horovod, "IS_LOCAL", False)` tells the two apart."""

if any(metadata.distributions(name="horovod")):
    raise HorovodConflictError(
        "horovod-local is installed next to the real horovod and has overwritten some of its files:"
        " run `pip uninstall horovod-local`, then reinstall horovod"
    )
