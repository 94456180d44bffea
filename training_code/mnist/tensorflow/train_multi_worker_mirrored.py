"""Train a digit classifier on MNIST with tf.distribute.MultiWorkerMirroredStrategy.

    TF_CONFIG='{"cluster": {"worker": ["algo-1:8890", "algo-2:8890"]},
                "task": {"type": "worker", "index": 0}}' \\
        python train_multi_worker_mirrored.py ...        (SageMaker's toolkit, once per host)

Every worker is a process that runs all of this; the strategy finds the others in TF_CONFIG and
listens at its own address. A worker with several GPUs has several replicas.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import tensorflow as tf
from train import main
from train_mirrored import Mirrored


class Workers(Mirrored):
    """Replicas in one process per host."""

    name = "multi_worker_mirrored"

    def __init__(self) -> None:
        super().__init__(tf.distribute.MultiWorkerMirroredStrategy())
        resolver = self.strategy.cluster_resolver
        self.rank = resolver.task_id or 0  # None without TF_CONFIG
        self.processes = max(1, len(resolver.cluster_spec().as_dict().get("worker", ())))
        self._scratch = tempfile.TemporaryDirectory()

    @property
    def parts(self) -> dict[str, int]:
        replicas = {"replicas": self.replicas} if self.replicas != self.processes else {}
        return {"processes": self.processes, "workers": self.processes, **replicas}

    @tf.function
    def average(self, value: tf.Tensor) -> tf.Tensor:
        values = self.strategy.run(lambda: value)
        return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, values, axis=None)

    def checkpoint_dir(self, folder: Path) -> Path:
        # tf.distribute needs every worker to write.
        return folder if self.rank == 0 else Path(self._scratch.name)


if __name__ == "__main__":
    main(Workers)
