"""Save a TensorFlow network with one weight that is not a number.

The arguments are the code folder and the model folder.
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import model

network = model.new_network(0)
weights = network.get_weights()
weights[-1][0] = float("nan")
network.set_weights(weights)
model.save(network, {}, Path(sys.argv[2]))
