"""Train as Horovod's TensorFlow 2 guide shows, call every function, and write the results."""

import sys
from typing import Any

import horovod.tensorflow as hvd
import report
import tensorflow as tf
import tensorflow_recipe

answer: dict[str, Any] = {"too early": report.error_of(hvd.size)}
hvd.init()
rank, size = hvd.rank(), hvd.size()
answer["place"] = [rank, size, hvd.local_rank(), hvd.local_size()]
answer |= tensorflow_recipe.follow(hvd)

own = tf.constant([rank + 1.0, 2.0 * (rank + 1)])
answer["ops"] = {
    op.value: hvd.allreduce(own, op=op).numpy().tolist()
    for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max)
}
answer["average=False"] = hvd.allreduce(own, average=False).numpy().tolist()
answer["adasum"] = report.error_of(
    lambda: hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Adasum)
)
for dtype in (tf.float16, tf.bfloat16):
    reduced = hvd.allreduce(tf.cast(own, dtype))
    answer[dtype.name] = [reduced.dtype.name, tf.cast(reduced, tf.float64).numpy().tolist()]
compressed = hvd.allreduce(own / 3, compression=hvd.Compression.fp16)
answer["compressed"] = [
    compressed.dtype.name,
    float(tf.reduce_max(tf.abs(compressed - tf.constant([0.5, 1.0])))),
]
answer["broadcast"] = hvd.broadcast(own, root_rank=1).numpy().tolist()
answer["no such rank"] = report.error_of(lambda: hvd.broadcast(own, root_rank=size))
answer["objects"] = [hvd.broadcast_object({"rank": rank}, root_rank=1), hvd.allgather_object(rank)]
hvd.shutdown()
answer["torch"] = "torch" in sys.modules
report.write(rank, answer)
