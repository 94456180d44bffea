"""Train a digit classifier on MNIST with SageMaker's data parallel library.

mpirun -np 8 smddprun python -m mpi4py train_smddp.py ...        (what SageMaker's toolkit runs)
"""

import smdistributed.dataparallel.tensorflow as sdp
from ranks import Ranks
from train import main

if __name__ == "__main__":
    main(lambda: Ranks("smddp", sdp, sdp.oob_allreduce))
