"""Save a model of y = 2x + 1 with TensorFlow, as its model server reads it."""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf


class Line(tf.Module):  # type: ignore[misc, unused-ignore]
    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32)])  # type: ignore[untyped-decorator, unused-ignore]
    def serve(self, x: tf.Tensor) -> tf.Tensor:
        return 2 * x + 1


tf.saved_model.save(Line(), str(Path(os.environ["SM_MODEL_DIR"]) / "1"))
print("saved", flush=True)
