"""Tests, laid out like the tree they test."""
