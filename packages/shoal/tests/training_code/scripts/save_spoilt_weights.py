"""Save a PyTorch network with one weight that is not a number.

The arguments are the code folder and the model folder.
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import model
import torch

network = model.new_network(torch.device("cpu"))
network.dense2.bias.data[0] = float("nan")
model.save(network, {}, Path(sys.argv[2]))
