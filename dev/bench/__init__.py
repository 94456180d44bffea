"""Benchmarks: `make bench`, `make bench-quick`, `make bench-gpu`. Only tests import it."""
