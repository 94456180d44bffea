"""Save a network of either framework with one weight that is not a number.

The arguments are the code folder and the model folder.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])
import model

network: Any
if hasattr(model, "torch"):
    network = model.new_network(model.torch.device("cpu"))
    network.dense2.bias.data[0] = float("nan")
else:
    network = model.new_network(0)
    weights = network.get_weights()
    weights[-1][0] = float("nan")
    network.set_weights(weights)
model.save(network, {}, Path(sys.argv[2]))
