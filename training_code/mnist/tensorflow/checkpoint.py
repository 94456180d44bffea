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
from common.options import differences_of
from common.stopping import StopRequest
from run import Run

UNREADABLE = (tf.errors.OpError, IndexError, ValueError, AssertionError)
"""What TensorFlow raises for a file that is damaged, cut off or of another network."""


class Checkpoint:
    """One process's view of the checkpoint: all processes read it, one of the job writes it."""

    def __init__(
        self,
        run: Run,
        network: Any,
        optimizer: Any,
        average: Callable[[tf.Tensor], tf.Tensor],
        folder: Path | None,
        io_device: str | None,
    ) -> None:
        """`folder` is where this process writes, None if it does not. `io_device` is the task whose
        disk has it. `average` works over all ranks: it tells whether their checkpoints differ, and
        whether any of them was told to stop.
        """
        self._run, self._optimizer, self._average = run, optimizer, average
        self._stop = StopRequest()
        self._settings = tf.Variable(json.dumps(run.identity, sort_keys=True))
        self._state = tf.train.Checkpoint(network=network, optimizer=optimizer, run=self._settings)
        self._manager = folder and tf.train.CheckpointManager(self._state, str(folder), 1)
        self._options = tf.train.CheckpointOptions(experimental_io_device=io_device)

    def restore(self) -> int:
        """Return the number of steps that are done, 0 without a checkpoint.

        Raise ValueError if it cannot be read, is from another run, or differs between hosts, each
        of which has its own copy.
        """
        folder = self._run.options.checkpoint_dir
        path = tf.train.latest_checkpoint(str(folder))
        if path:
            self._read(path)
        elif (folder / "checkpoint").exists():
            raise ValueError(
                f"{folder / 'checkpoint'} names a checkpoint that is not there, empty its folder to"
                " start again"
            )
        done = self._done()
        if self._mean(done) != done:
            raise ValueError(f"the ranks' checkpoints differ: this one has {done} steps")
        return done

    def after(self, step: int) -> bool:
        """Replace the checkpoint if it is due after `step`, or if any process was told to stop.

        Return True in the second case: training ends. The processes agree where a loss is printed,
        so that no other step pays for it.
        """
        stopping = self._run.looks(step) and self._mean(self._stop.received) > 0
        if self._manager and (stopping or self._run.writes(step)):
            self._manager.save(self._done(), options=self._options)
        if stopping:
            # No process leaves before it is written: a launcher ends the others when one has left.
            self._mean(0)
        return stopping

    def _mean(self, value: float) -> float:
        return float(self._average(tf.constant(float(value))))

    def _done(self) -> int:
        return int(tf.convert_to_tensor(self._optimizer.iterations))

    def _read(self, path: str) -> None:
        try:
            # Some of the optimizer's variables are made in its first step and restored then; a
            # finished run makes none.
            status = self._state.restore(path, self._options)
            status.assert_existing_objects_matched().expect_partial()
        except UNREADABLE as error:
            raise ValueError(
                f"{path} cannot be read, empty its folder to start again:"
                f" {' '.join(str(error).split())}"
            ) from error
        saved = json.loads(self._settings.numpy())
        if differences := differences_of(saved, self._run.identity):
            raise ValueError(
                f"{path} is from a run with other settings: {differences}; use them or another"
                " --checkpoint-dir"
            )
