"""The calls of AWS's published TensorFlow 2 example for smddp, in its order.

The example: amazon-sagemaker-examples,
training/distributed_training/tensorflow/data_parallel/mnist. Like it, this broadcasts variables
that the first step makes, inside tf.function, saves on rank 0 and never calls shutdown(). Rank 0
writes the results.
"""

import sys
from pathlib import Path
from typing import Any

import report
import smdistributed.dataparallel.tensorflow as dist
import tensorflow as tf

dist.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[dist.local_rank()], "GPU")

tf.random.set_seed(42 + dist.rank())  # ranks start apart on purpose; the example's are equal
points = tf.random.stateless_normal((400, 8, 8, 1), seed=(1, 2))
labels = tf.cast(tf.reduce_mean(points, axis=(1, 2, 3)) > 0, tf.int64)
dataset = tf.data.Dataset.from_tensor_slices((points, labels)).repeat().shuffle(400).batch(20)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, [3, 3], activation="relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy()
optimizer = tf.optimizers.Adam(0.005 * dist.size())
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)


@tf.function  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def training_step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> Any:
    with tf.GradientTape() as tape:
        value = loss(labels, model(images, training=True))
    tape = dist.DistributedGradientTape(tape)
    gradients = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    if first_batch:
        dist.broadcast_variables(model.variables, root_rank=0)
        dist.broadcast_variables(optimizer.variables(), root_rank=0)
    return dist.oob_allreduce(value)


losses = [
    float(training_step(images, labels, batch == 0))
    for batch, (images, labels) in enumerate(dataset.take(120 // dist.size()))
]
weights = tf.concat([tf.reshape(weight, [-1]) for weight in model.trainable_variables], 0)
equal = bool(tf.reduce_all(dist.broadcast(weights, root_rank=0) == weights))
all_equal = all(dist.get_worker_comm().allgather(equal))
if dist.rank() == 0:
    model.save(str(Path(sys.argv[1]).with_name("model") / "1"))
    checkpoint.save(str(Path(sys.argv[1]).with_name("checkpoints") / "last"))
    again = tf.keras.models.load_model(str(Path(sys.argv[1]).with_name("model") / "1"))
    answers = tf.argmax(again(points), axis=1)
    answer = {
        "losses": losses,
        "equal": all_equal,
        "accuracy": float(tf.reduce_mean(tf.cast(answers == labels, tf.float32))),
    }
    report.write(0, answer)
