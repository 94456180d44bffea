"""Combinations of options that must pass every gate, and combinations that must give one error
each.
"""
