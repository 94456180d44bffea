"""Train as Horovod's TensorFlow 2 guide shows, then call every function of the stand-in; write what they answer."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def error_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - the answer is which error it is
        return f"{type(error).__name__}: {error}"
    return "ok"


answer: dict[str, Any] = {"too early": error_of(hvd.size)}
hvd.init()
rank, size = hvd.rank(), hvd.size()
answer["place"] = [rank, size, hvd.local_rank(), hvd.local_size()]
generator = np.random.default_rng(0)
inputs, targets = generator.standard_normal((32, 20), np.float32), generator.standard_normal((32, 3), np.float32)
mine = slice(rank * 32 // size, (rank + 1) * 32 // size)
tf.keras.utils.set_random_seed(rank)  # ranks start apart on purpose
model = tf.keras.Sequential([tf.keras.Input((20,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.Adam(0.01 * size)
hvd.broadcast_variables(model.variables, root_rank=0)
weights = model.trainable_variables
with tf.GradientTape() as whole:
    whole_loss = tf.reduce_mean((model(inputs) - targets) ** 2)
whole_gradients = whole.gradient(whole_loss, weights)


@tf.function  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, weights)
    optimizer.apply_gradients(zip(gradients, weights, strict=True))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables(), root_rank=0)
    return gradients


def ranks_equal() -> bool:
    flat = tf.concat([tf.reshape(weight, [-1]) for weight in weights], 0)
    return bool(tf.reduce_all(hvd.allreduce(flat, op=hvd.Min) == hvd.allreduce(flat, op=hvd.Max)))


gradients = step(inputs[mine], targets[mine], True)
answer["gradient_error"] = max(float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(gradients, whole_gradients, strict=True))
step(inputs[mine], targets[mine], False)
answer["ranks_equal"] = ranks_equal()

wrapped = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
with tf.GradientTape() as tape:
    loss = tf.reduce_mean((model(inputs[mine]) - targets[mine]) ** 2)
wrapped.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
answer["ranks_equal_after_optimizer"] = ranks_equal()

own = tf.constant([rank + 1.0, 2.0 * (rank + 1)])
answer["ops"] = {op.value: hvd.allreduce(own, op=op).numpy().tolist() for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max)}
answer["average=False"] = hvd.allreduce(own, average=False).numpy().tolist()
answer["adasum"] = error_of(lambda: hvd.DistributedGradientTape(tape, op=hvd.Adasum))
for dtype in (tf.float16, tf.bfloat16):
    reduced = hvd.allreduce(tf.cast(own, dtype))
    answer[dtype.name] = [reduced.dtype.name, tf.cast(reduced, tf.float64).numpy().tolist()]
compressed = hvd.allreduce(own / 3, compression=hvd.Compression.fp16)
answer["compressed"] = [compressed.dtype.name, float(tf.reduce_max(tf.abs(compressed - tf.constant([0.5, 1.0]))))]
answer["broadcast"] = hvd.broadcast(own, root_rank=1).numpy().tolist()
answer["no such rank"] = error_of(lambda: hvd.broadcast(own, root_rank=size))
answer["objects"] = [hvd.broadcast_object({"rank": rank}, root_rank=1), hvd.allgather_object(rank)]
hvd.shutdown()
answer["torch"] = "torch" in sys.modules
if rank == 0:
    Path(sys.argv[1]).write_text(json.dumps(answer))
