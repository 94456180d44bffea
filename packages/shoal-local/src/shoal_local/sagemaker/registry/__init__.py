"""The model registry: model package groups and their versions."""
