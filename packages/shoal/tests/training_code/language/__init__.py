"""Tests of training_code/language, which run its scripts as its jobs would."""
