"""Build the optimizer of today's TensorFlow and the one of TensorFlow before 2.11.

The argument is the code folder. Prints how many variables each has before and after its first step,
as JSON.
"""

import importlib
import json
import sys

import tensorflow as tf

sys.path.insert(0, sys.argv[1])
model = importlib.import_module("model")  # for the type checker: PyTorch's
build = importlib.import_module("train_parameter_server").build

counts = {}
for name, optimizer in (
    ("new", model.new_optimizer([0.1])),
    ("legacy", tf.keras.optimizers.legacy.Adam(model.Rates([0.1]))),
):
    weights = [tf.Variable([1.0, 2.0]), tf.Variable(3.0)]
    build(optimizer, weights)
    before = len(optimizer.variables())
    optimizer.apply_gradients((tf.ones_like(weight), weight) for weight in weights)
    counts[name] = [before, len(optimizer.variables())]
print(json.dumps(counts))
