"""A run as one object: what happened, what it cost, where its model came from, what is left."""
