"""The model registry: model package groups and versions; what is registered, approved, listed."""
