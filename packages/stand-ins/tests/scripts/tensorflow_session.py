"""Train a TensorFlow 1 graph and Keras with fit(); write whether ranks start and end alike."""

from typing import Any

import numpy as np
import report
import smdistributed.dataparallel.tensorflow.keras as sdp
import tensorflow as tf
from smdistributed.dataparallel.tensorflow import (
    BroadcastGlobalVariablesHook,
    broadcast_global_variables,
    oob_allreduce,
)

sdp.init()
rank = sdp.rank()
answer: dict[str, Any] = {}

with tf.Graph().as_default():
    weight = tf.compat.v1.get_variable("weight", initializer=tf.constant([10.0 * rank, 0.0]))
    loss = tf.reduce_sum(weight * tf.constant([1.0, 2.0]) * (rank + 1.0))
    optimizer = sdp.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
    train = optimizer.minimize(loss)
    with tf.compat.v1.train.MonitoredTrainingSession(
        hooks=[BroadcastGlobalVariablesHook(root_rank=1)]
    ) as session:
        answer["start"] = session.run(weight).tolist()
        session.run(train)
        answer["step"] = session.run(weight).tolist()

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    variable = tf.compat.v1.get_variable("variable", initializer=float(rank))
    everywhere = broadcast_global_variables(root_rank=1)
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(everywhere)
    answer["global variables"] = float(session.run(variable))

tf.keras.utils.set_random_seed(rank)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
model.compile(
    optimizer=sdp.DistributedOptimizer(tf.keras.optimizers.Adam(0.01 * sdp.size())), loss="mse"
)
callbacks = [
    sdp.callbacks.BroadcastGlobalVariablesCallback(0),
    sdp.callbacks.MetricAverageCallback(),
]
rows = np.random.default_rng(rank).standard_normal((64, 4), np.float32)
history = model.fit(rows, rows[:, :2], batch_size=16, epochs=2, verbose=0, callbacks=callbacks)
flat = tf.concat([tf.reshape(weight, [-1]) for weight in model.trainable_variables], 0)
answer["fit equal"] = bool(tf.reduce_all(flat == sdp.broadcast(flat, 0)))
losses = tf.constant(history.history["loss"])
answer["metrics equal"] = bool(tf.reduce_all(tf.abs(losses - oob_allreduce(losses)) < 1e-6))
sdp.shutdown()
report.write(rank, answer)
