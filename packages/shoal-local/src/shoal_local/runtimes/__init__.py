"""Runtimes: virtual environments that stand in for container images."""
