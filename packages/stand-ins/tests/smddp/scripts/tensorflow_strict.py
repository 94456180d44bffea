"""Try in strict mode what AWS's reference does not list, and write the result of each attempt."""

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import smdistributed.dataparallel.tensorflow as sdp
import tensorflow as tf


def error_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - the answer is which error it is
        return f"{type(error).__name__}: {error}"
    return "ok"


def signature_of(function: Any) -> list[str]:
    """Return names and defaults of the arguments, as AWS's reference writes them."""
    shown = {sdp.Compression.none: "Compression.none"}
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name
        if each.default is each.empty
        else f"{each.name}={shown.get(each.default, each.default)}"
        for each in parameters
    ]


sdp.init()
one = tf.constant(1.0)
answer: dict[str, Any] = {
    "oob_allreduce": error_of(lambda: sdp.oob_allreduce(one, op=sdp.ReduceOp.SUM)),
    "DistributedGradientTape": error_of(
        lambda: sdp.DistributedGradientTape(tf.GradientTape(), op=sdp.ReduceOp.MAX)
    ),
    "DistributedOptimizer": error_of(
        lambda: sdp.DistributedOptimizer(tf.keras.optimizers.SGD(), op=sdp.ReduceOp.SUM)
    ),
    "allreduce": error_of(lambda: sdp.allreduce(one, 0, 1, op=sdp.ReduceOp.SUM)),
    "op None": error_of(lambda: sdp.oob_allreduce(one, op=None)),
}
answer["signatures"] = {
    name: signature_of(getattr(sdp, name))
    for name in sdp.__all__
    if name not in ("Compression", "ReduceOp")
}
if sdp.rank() == 0:
    Path(sys.argv[1]).write_text(json.dumps(answer))
