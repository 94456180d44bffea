"""One role per actor, and the guard rails of their policies."""
