"""Imports PyTorch and nothing else; import this first, and the program starts half a second sooner.

Python otherwise looks for garbage among torch's new objects again and again while torch is
imported, and through all of them once more at exit. Nearly all of them live to the end.
"""

import gc

gc.disable()
import torch  # noqa: E402, F401 (between the two, which is the point)

gc.freeze()
gc.enable()
