"""Imports PyTorch, and nothing else: a program that imports this before anything that needs torch
starts and ends half a second sooner.

Python otherwise looks for garbage among torch's new objects again and again while they are made,
and once more through all of them at its exit. Nearly all of them stay to the end.
"""

import gc

gc.disable()
import torch  # noqa: E402, F401 (between the two, which is the point)

gc.freeze()
gc.enable()
