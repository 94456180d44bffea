"""Train as AWS's TensorFlow 2 guide shows, then call every function of the API; write what they answer."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import smdistributed.dataparallel.tensorflow as sdp
import tensorflow as tf


def error_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - the answer is which error it is
        return f"{type(error).__name__}: {error}"
    return "ok"


answer: dict[str, Any] = {"too early": error_of(sdp.rank)}
sdp.init()
rank, size = sdp.rank(), sdp.size()
answer |= {"twice": error_of(sdp.init), "place": [rank, size, sdp.local_rank(), sdp.local_size()]}

generator = np.random.default_rng(0)
inputs, targets = generator.standard_normal((32, 20), np.float32), generator.standard_normal((32, 3), np.float32)
mine = slice(rank * 32 // size, (rank + 1) * 32 // size)
tf.keras.utils.set_random_seed(rank)  # ranks start apart on purpose
model = tf.keras.Sequential([tf.keras.Input((20,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.Adam(0.01 * size)
sdp.broadcast_variables(model.variables, root_rank=0)
weights = model.trainable_variables
with tf.GradientTape() as whole:
    whole_loss = tf.reduce_mean((model(inputs) - targets) ** 2)
whole_gradients = whole.gradient(whole_loss, weights)


@tf.function  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    tape = sdp.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, weights)
    optimizer.apply_gradients(zip(gradients, weights, strict=True))
    if first_batch:
        sdp.broadcast_variables(model.variables, root_rank=0)
        sdp.broadcast_variables(optimizer.variables(), root_rank=0)
    return sdp.oob_allreduce(loss), gradients


def ranks_equal() -> bool:
    flat = tf.concat([tf.reshape(weight, [-1]) for weight in weights], 0)
    lowest, highest = (sdp.allreduce(flat, 0, 1, op=op) for op in (sdp.ReduceOp.MIN, sdp.ReduceOp.MAX))
    return bool(tf.reduce_all(lowest == highest))


loss, gradients = step(inputs[mine], targets[mine], True)
answer["gradient_error"] = max(float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(gradients, whole_gradients, strict=True))
answer["loss_error"] = abs(float(loss) - float(whole_loss))
for _ in range(4):
    step(inputs[mine], targets[mine], False)
answer["ranks_equal"] = ranks_equal()

distributed = sdp.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs[mine]) - targets[mine]) ** 2)
    distributed.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
answer["ranks_equal_after_optimizer"] = ranks_equal()

table = tf.Variable(tf.ones((size, 2)))
with tf.GradientTape(persistent=True) as tape:
    looked_up = tf.reduce_sum(tf.gather(table, [rank]))
sparse = sdp.DistributedGradientTape(tape).gradient(looked_up, [table, tf.Variable(1.0)])
answer["sparse"] = [tf.convert_to_tensor(sparse[0]).numpy().tolist(), sparse[1]]
answer["sparse refused"] = error_of(lambda: sdp.DistributedGradientTape(tape, sparse_as_dense=False).gradient(looked_up, table))

mean = (size + 1) / 2
own = tf.constant([rank + 1.0, 2.0 * (rank + 1)])
answer["ops"] = {op.name: sdp.allreduce(own, 0, 1, op=op).numpy().tolist() for op in sdp.ReduceOp}
answer["op None"] = sdp.allreduce(own, 0, 1, op=None).numpy().tolist()
answer["grad="] = sdp.allreduce(grad=own, param_index=1, num_params=2).numpy().tolist()
answer["index"] = error_of(lambda: sdp.allreduce(own, 2, 2))
answer["integers"] = int(sdp.oob_allreduce(tf.constant(rank + 1)))
for dtype in (tf.float16, tf.bfloat16, tf.float64):
    reduced = sdp.allreduce(tf.cast(own, dtype), 0, 1)
    answer[dtype.name] = [reduced.dtype.name, tf.cast(reduced, tf.float64).numpy().tolist()]
precise = tf.constant([1 / 3, 1e-3])
compressed = sdp.allreduce(precise, 0, 1, compression=sdp.Compression.fp16)
answer["compressed"] = [compressed.dtype.name, bool(tf.reduce_all(compressed == tf.cast(tf.cast(precise, tf.float16), tf.float32)))]
answer["broadcast"] = sdp.broadcast(tf.fill([2, 2], rank), root_rank=size - 1).numpy().tolist()
answer["no such rank"] = error_of(lambda: sdp.broadcast(own, root_rank=size))
answer["scalar"] = sdp.broadcast(tf.constant(7), 0).shape.as_list()
answer["overlap"] = sdp.overlap(own).numpy().tolist() == own.numpy().tolist()
answer["global variables"] = error_of(lambda: sdp.broadcast_global_variables(0))
answer["oob sum"] = error_of(lambda: sdp.oob_allreduce(own, op=sdp.ReduceOp.SUM))
answer["device_dense"] = error_of(lambda: sdp.DistributedGradientTape(tape, device_dense="/gpu:0"))
answer["device_sparse"] = error_of(lambda: sdp.DistributedOptimizer(optimizer, device_sparse="/gpu:0"))
answer["bucket"] = error_of(lambda: sdp.DistributedOptimizer(optimizer, bucket_cap_mb=0.0001))
answer["objects"] = sdp.get_worker_comm().allgather({"rank": rank})
sdp.shutdown()
answer["after shutdown"] = error_of(sdp.size)
answer["torch"] = "torch" in sys.modules
if rank == 0:
    Path(sys.argv[1]).write_text(json.dumps(answer))
