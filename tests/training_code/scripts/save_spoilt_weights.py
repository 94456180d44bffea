"""Save a PyTorch network of which one weight is not a number: code folder and model folder come in,
an error goes out.
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import model
import torch

network = model.new_network(torch.device("cpu"))
network.dense2.bias.data[0] = float("nan")
model.save(network, {}, Path(sys.argv[2]))
