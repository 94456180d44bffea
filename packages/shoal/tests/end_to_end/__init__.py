"""The whole of it, from the outside: real processes, real CLI, real training."""
