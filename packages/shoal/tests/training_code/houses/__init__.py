"""Tests of training_code/houses, which run its scripts as its jobs and its endpoint would."""
