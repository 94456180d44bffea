"""Refuses the first API of smddp (1.0 to 1.3), which AWS deprecated in version 1.4."""

from ..exceptions import SMDDPUnsupportedError

raise SMDDPUnsupportedError(
    "smddp-local does not have the first API (smdistributed.dataparallel.torch.distributed and"
    ' torch.parallel): use torch.distributed with backend "smddp", which'
    " smdistributed.dataparallel.torch.torch_smddp registers"
)
