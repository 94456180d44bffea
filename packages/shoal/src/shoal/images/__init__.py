"""Recipes of container images, the build arguments that the compatibility tables give them, and the
rules they keep.
"""
