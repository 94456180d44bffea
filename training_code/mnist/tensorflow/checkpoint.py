"""The checkpoint: network and optimizer, written every few steps and read back exactly.

A tf.train.Checkpoint in the folder that SageMaker copies to and from S3 (/opt/ml/checkpoints). The
optimizer counts the steps; the data order and the learning rate follow from that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from plan import Plan
from stopping import StopRequest

UNREADABLE = (tf.errors.OpError, IndexError, ValueError, AssertionError)
"""What TensorFlow raises for a file that is damaged, cut off or of another network."""


class Checkpoint:
    """One process's view of the checkpoint: all processes read it, one of the job writes it."""

    def __init__(
        self,
        plan: Plan,
        network: Any,
        optimizer: Any,
        *,
        folder: Path | None,
        io_device: str | None = None,
    ) -> None:
        """`folder` is where this process writes, None if it does not.

        `io_device` names the task whose disk holds the checkpoint.
        """
        self._plan = plan
        self._optimizer = optimizer
        self._stop = StopRequest()
        self._average: Callable[[tf.Tensor], tf.Tensor] = tf.identity
        self._run = tf.Variable(json.dumps(plan.identity, sort_keys=True))
        self._state = tf.train.Checkpoint(network=network, optimizer=optimizer, run=self._run)
        self._options = tf.train.CheckpointOptions(experimental_io_device=io_device)
        self._manager = (
            tf.train.CheckpointManager(self._state, str(folder), max_to_keep=1) if folder else None
        )

    def restore(self, average: Callable[[tf.Tensor], tf.Tensor] = tf.identity) -> int:
        """Return the number of steps that are done, 0 without a checkpoint.

        Raise ValueError if it cannot be read, is from another run, or differs between hosts: each
        has its own copy. `average` works over all ranks; it also tells later whether any of them is
        to stop.
        """
        self._average = average
        folder = self._plan.options.checkpoint_dir
        path = tf.train.latest_checkpoint(str(folder))
        if path:
            self._read(path)
        elif (folder / "checkpoint").exists():
            raise ValueError(
                f"{folder / 'checkpoint'} names a checkpoint that is not there, empty its folder to"
                " start again"
            )
        done = self._done()
        if self._mean(float(done)) != done:
            raise ValueError(f"the ranks' checkpoints differ: this one has {done} steps")
        return done

    def due(self, step: int) -> bool:
        """Return whether a checkpoint is written after `step` (from 1) of an epoch."""
        return step % self._plan.options.checkpoint_every == 0 or step == self._plan.steps_per_epoch

    def after(self, step: int) -> bool:
        """Replace the checkpoint if it is due after `step`, or if any process was told to stop.

        Return True in the second case: training ends. The processes agree where metrics are
        printed, so that no other step pays for it.
        """
        stopping = self._plan.looks(step) and self._mean(float(self._stop.received)) > 0
        if self._manager and (self.due(step) or stopping):
            self._manager.save(self._done(), options=self._options)
        if stopping:
            # No process leaves before it is written: a launcher ends the others when one has left.
            self._mean(0.0)
        return stopping

    def _mean(self, value: float) -> float:
        return float(self._average(tf.constant(value)))

    def _done(self) -> int:
        return int(tf.convert_to_tensor(self._optimizer.iterations))

    def _read(self, path: str) -> None:
        expected = json.loads(self._run.numpy())
        try:
            # Some of the optimizer's variables are made in its first step and restored then; a
            # finished run makes none.
            self._state.restore(
                path, self._options
            ).assert_existing_objects_matched().expect_partial()
        except UNREADABLE as error:
            raise ValueError(
                f"{path} cannot be read, empty its folder to start again:"
                f" {' '.join(str(error).split())}"
            ) from error
        settings = json.loads(self._run.numpy())
        differences = [
            f"{key} {settings.get(key)} (now {value})"
            for key, value in expected.items()
            if settings.get(key) != value
        ]
        if differences:
            raise ValueError(
                f"{path} is from a run with other settings: {', '.join(differences)}; use them or"
                " another --checkpoint-dir"
            )
