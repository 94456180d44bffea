"""Train a digit classifier on MNIST with Horovod.

mpirun -np 8 python -m mpi4py train_horovod.py ...        (what SageMaker's toolkit runs)
"""

import horovod.tensorflow as hvd
from ranks import Ranks
from train import main

if __name__ == "__main__":
    main(lambda: Ranks("horovod", hvd, hvd.allreduce))
