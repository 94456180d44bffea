"""Benchmarks: `make bench`, `make bench-quick`, `make bench-gpu`. Nothing imports this package."""
