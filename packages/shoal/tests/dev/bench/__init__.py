"""Tests of the benchmark harness; nothing here is timed."""
