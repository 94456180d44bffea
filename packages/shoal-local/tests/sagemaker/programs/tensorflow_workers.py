"""Two hosts that meet through MultiWorkerMirroredStrategy; the first leaves a SavedModel that
multiplies by the sum of their ranks.
"""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf


class Scale(tf.Module):  # type: ignore[misc]
    """y = weight * sum of each row of x."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = tf.Variable(weight)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def serve(self, x):  # type: ignore[no-untyped-def]
        return {"y": tf.reduce_sum(x, axis=1) * self.weight}


strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver


@tf.function  # type: ignore[untyped-decorator]
def number() -> tf.Tensor:
    return strategy.run(lambda: tf.constant(float(resolver.task_id + 1)))


total = float(strategy.reduce(tf.distribute.ReduceOp.SUM, number(), axis=None))
print(
    f"workers={strategy.num_replicas_in_sync} total={total:.0f}"
    f" cluster={resolver.cluster_spec().as_dict()}",
    flush=True,
)
if resolver.task_id == 0:
    model = Scale(total)
    tf.saved_model.save(
        model,
        str(Path(os.environ["SM_MODEL_DIR"], "1")),
        signatures={"serving_default": model.serve},
    )
