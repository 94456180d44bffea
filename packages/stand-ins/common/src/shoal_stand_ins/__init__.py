"""What the CPU stand-ins for smddp and Horovod share; each adds its own names and refusals."""

VERSION = "0.1.0"
