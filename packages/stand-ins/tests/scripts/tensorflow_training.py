"""Train as AWS's TensorFlow 2 guide shows, call every function, and write the results."""

import sys
from typing import Any

import report
import smdistributed.dataparallel.tensorflow as sdp
import tensorflow as tf
import tensorflow_recipe

answer: dict[str, Any] = {"too early": report.error_of(sdp.rank)}
sdp.init()
rank, size = sdp.rank(), sdp.size()
answer |= {
    "twice": report.error_of(sdp.init),
    "place": [rank, size, sdp.local_rank(), sdp.local_size()],
}

answer |= tensorflow_recipe.follow(sdp)

weight = tf.Variable(1.0)
with tf.GradientTape() as tape:  # rank r has r + 1 images, all of them r + 1
    uneven = weight * tf.reduce_mean(tf.fill([rank + 1], rank + 1.0))
answer["uneven"] = float(sdp.DistributedGradientTape(tape).gradient(uneven, weight))

variables = [
    tf.Variable(tf.zeros(shape, dtype))
    for dtype in ("float32", "float16", "float64")
    for shape in ((), (3, 5), (400, 500))
]
with tf.GradientTape() as tape:  # of variable number n on rank r: (n + 1) * (r + 1) everywhere
    parts = [
        tf.cast(tf.reduce_sum(each), tf.float64) * (number + 1) * (rank + 1)
        for number, each in enumerate(variables)
    ]
    several = tf.add_n(parts)
means = sdp.DistributedGradientTape(tape).gradient(several, variables)
answer["several"] = [
    [mean.dtype.name, mean.shape.as_list(), float(tf.reduce_min(mean)), float(tf.reduce_max(mean))]
    for mean in means
]

table = tf.Variable(tf.ones((size, 2)))
with tf.GradientTape(persistent=True) as tape:
    looked_up = tf.reduce_sum(tf.gather(table, [rank]))
sparse = sdp.DistributedGradientTape(tape).gradient(looked_up, [table, tf.Variable(1.0)])
answer["sparse"] = [tf.convert_to_tensor(sparse[0]).numpy().tolist(), sparse[1]]
answer["sparse refused"] = report.error_of(
    lambda: sdp.DistributedGradientTape(tape, sparse_as_dense=False).gradient(looked_up, table)
)

own = tf.constant([rank + 1.0, 2.0 * (rank + 1)])
answer["ops"] = {op.name: sdp.allreduce(own, 0, 1, op=op).numpy().tolist() for op in sdp.ReduceOp}
answer["op None"] = sdp.allreduce(own, 0, 1, op=None).numpy().tolist()
answer["grad="] = sdp.allreduce(grad=own, param_index=1, num_params=2).numpy().tolist()
answer["index"] = report.error_of(lambda: sdp.allreduce(own, 2, 2))
answer["integers"] = int(sdp.oob_allreduce(tf.constant(rank + 1)))
for dtype in (tf.float16, tf.bfloat16, tf.float64):
    reduced = sdp.allreduce(tf.cast(own, dtype), 0, 1)
    answer[dtype.name] = [reduced.dtype.name, tf.cast(reduced, tf.float64).numpy().tolist()]
precise = tf.constant([1 / 3, 1e-3])
compressed = sdp.allreduce(precise, 0, 1, compression=sdp.Compression.fp16)
answer["compressed"] = [
    compressed.dtype.name,
    bool(tf.reduce_all(compressed == tf.cast(tf.cast(precise, tf.float16), tf.float32))),
]
answer["broadcast"] = sdp.broadcast(tf.fill([2, 2], rank), root_rank=size - 1).numpy().tolist()
answer["no such rank"] = report.error_of(lambda: sdp.broadcast(own, root_rank=size))
answer["scalar"] = sdp.broadcast(tf.constant(7), 0).shape.as_list()
answer["overlap"] = sdp.overlap(own).numpy().tolist() == own.numpy().tolist()
answer["global variables"] = report.error_of(lambda: sdp.broadcast_global_variables(0))
answer["oob sum"] = report.error_of(lambda: sdp.oob_allreduce(own, op=sdp.ReduceOp.SUM))
answer["device_dense"] = report.error_of(
    lambda: sdp.DistributedGradientTape(tape, device_dense="/gpu:0")
)
answer["device_sparse"] = report.error_of(
    lambda: sdp.DistributedOptimizer(tf.keras.optimizers.SGD(), device_sparse="/gpu:0")
)
answer["bucket"] = report.error_of(
    lambda: sdp.DistributedOptimizer(tf.keras.optimizers.SGD(), bucket_cap_mb=0.0001)
)
answer["objects"] = sdp.get_worker_comm().allgather({"rank": rank})
sdp.shutdown()
answer["after shutdown"] = report.error_of(sdp.size)
answer["torch"] = "torch" in sys.modules
report.write(rank, answer)
