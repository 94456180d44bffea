"""What a definition must be: the rules of its graph, and the shapes of its requests."""
