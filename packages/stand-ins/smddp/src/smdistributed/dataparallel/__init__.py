"""A CPU stand-in for AWS's `smdistributed.dataparallel`.

It has the same imports and the same backend name, with gloo underneath. Importing it raises
SMDDPLocalConflictError where AWS's own wheel is installed.
"""

from importlib import metadata

from .exceptions import SMDDPLocalConflictError

__version__ = "0.1.0+local"
"""The local part says in every log that this is not AWS's library."""
IS_LOCAL = True
"""AWS's library has no such attribute: `getattr(smdistributed.dataparallel, "IS_LOCAL", False)`
tells the two apart.
"""

if any(metadata.distributions(name="smdistributed-dataparallel")):
    raise SMDDPLocalConflictError(
        "smddp-local is installed next to AWS's smdistributed-dataparallel and has overwritten some"
        " of its files: run `pip uninstall smddp-local`, then reinstall smdistributed-dataparallel"
    )
