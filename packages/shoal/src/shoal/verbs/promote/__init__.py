"""Pinning a model that passed in the file of the next environment."""
