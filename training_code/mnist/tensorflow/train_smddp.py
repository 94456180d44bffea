"""Train a digit classifier on MNIST with SageMaker's data parallel library.

    mpirun -np 8 smddprun python -m mpi4py train_smddp.py ...        (what SageMaker's toolkit runs)

ranks.py has the recipe.
"""

from __future__ import annotations

import os
import sys

import smdistributed.dataparallel.tensorflow as sdp
from plan import parse_options
from ranks import train

if __name__ == "__main__":
    options = parse_options(sys.argv[1:], os.environ)
    train(options, sdp, strategy="smddp", average=sdp.oob_allreduce)
