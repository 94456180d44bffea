"""YAML text with line numbers, and the errors that name them."""
