"""Train a digit classifier on MNIST with SageMaker's data parallel library."""

import smdistributed.dataparallel.tensorflow as sdp
from strategies import Ranks

Ranks.main("smddp", sdp, sdp.oob_allreduce)
