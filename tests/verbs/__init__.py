"""Tests of what the folder is named after."""
