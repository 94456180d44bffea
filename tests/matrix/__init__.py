"""Combinations of options: those that must synthesise and pass every gate, and those that must each
give their one error.
"""
