"""Try in strict mode what AWS's reference does not list, and write the result of each attempt."""

from typing import Any

import report
import smdistributed.dataparallel.tensorflow as sdp
import tensorflow as tf

SHOWN = {sdp.Compression.none: "Compression.none"}
sdp.init()
one = tf.constant(1.0)
answer: dict[str, Any] = {
    "oob_allreduce": report.error_of(lambda: sdp.oob_allreduce(one, op=sdp.ReduceOp.SUM)),
    "DistributedGradientTape": report.error_of(
        lambda: sdp.DistributedGradientTape(tf.GradientTape(), op=sdp.ReduceOp.MAX)
    ),
    "DistributedOptimizer": report.error_of(
        lambda: sdp.DistributedOptimizer(tf.keras.optimizers.SGD(), op=sdp.ReduceOp.SUM)
    ),
    "allreduce": report.error_of(lambda: sdp.allreduce(one, 0, 1, op=sdp.ReduceOp.SUM)),
    "op None": report.error_of(lambda: sdp.oob_allreduce(one, op=None)),
}
answer["signatures"] = {
    name: report.signature_of(function, SHOWN)
    for name, function in vars(sdp).items()
    if callable(function) and name not in ("Compression", "ReduceOp")
}
report.write(sdp.rank(), answer)
