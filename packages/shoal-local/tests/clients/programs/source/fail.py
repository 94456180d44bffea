"""A training script that fails."""

raise ValueError("no such digit: 11")
