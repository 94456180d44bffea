"""Train a digit classifier on MNIST with Horovod."""

import horovod.tensorflow as hvd
from strategies import Ranks

Ranks.main("horovod", hvd, hvd.allreduce)
