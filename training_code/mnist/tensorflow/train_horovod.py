"""Train a digit classifier on MNIST with Horovod.

    mpirun -np 8 python -m mpi4py train_horovod.py ...        (what SageMaker's toolkit runs)

ranks.py has the recipe.
"""

from __future__ import annotations

import os
import sys

import horovod.tensorflow as hvd
from plan import parse_options
from ranks import train

if __name__ == "__main__":
    options = parse_options(sys.argv[1:], os.environ)
    train(options, hvd, strategy="horovod", average=hvd.allreduce)
