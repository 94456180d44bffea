"""Deleting everything, and looking whether anything is left."""
