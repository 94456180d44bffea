"""Repositories and builds of container images."""
