"""Train with `model.fit` as Horovod's Keras guide shows; write what every rank ended with."""

import horovod.tensorflow.keras as hvd
import numpy as np
import report
import tensorflow as tf

hvd.init()
rank, size = hvd.rank(), hvd.size()
tf.keras.utils.set_random_seed(rank)
model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1 * size))
model.compile(optimizer, "mse")


class Rates(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Keeps the learning rate of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.seen.append(round(float(self.model.optimizer.learning_rate.numpy()), 3))


rates = Rates()
x = np.random.default_rng(rank).normal(size=(32, 2)).astype("float32")
y = x @ np.array([[2.0], [-1.0]], dtype="float32") + 1
history = model.fit(
    x,
    y,
    batch_size=16,
    epochs=30,
    verbose=0,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1 * size, warmup_epochs=2),
        rates,
    ],
)
weights = np.concatenate([each.ravel() for each in model.get_weights()])
everyones = hvd.allgather_object([weights.tolist(), history.history["loss"][-1]])


def with_momentum() -> None:
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    warmup = hvd.callbacks.LearningRateWarmupCallback(0.1)
    model.fit(x, y, verbose=0, callbacks=[warmup])


answer = {
    "weights": [each for each, _ in everyones],
    "ranks_equal": all(each == everyones[0][0] for each, _ in everyones),
    "losses_equal": len({loss for _, loss in everyones}) == 1,
    "rates": rates.seen[:5],
    "momentum": report.error_of(with_momentum),
}
report.write(rank, answer)
