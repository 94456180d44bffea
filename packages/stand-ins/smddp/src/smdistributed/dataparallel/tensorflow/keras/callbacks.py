"""Callbacks for `model.fit`: rank 0's weights at the start, metrics of all ranks at the end of an
epoch.
"""

from shoal_stand_ins.tensorflow.callbacks import BroadcastCallback, MetricCallback
from smdistributed.dataparallel.tensorflow.collectives import JOB, oob_allreduce


class BroadcastGlobalVariablesCallback(BroadcastCallback):
    """Gives every rank the model's and the optimizer's variables of rank `root_rank`."""

    def __init__(self, root_rank: int) -> None:
        super().__init__(JOB, root_rank)


class MetricAverageCallback(MetricCallback):
    """Replaces each metric of an epoch by its average over all ranks."""

    def __init__(self) -> None:
        super().__init__(oob_allreduce)
