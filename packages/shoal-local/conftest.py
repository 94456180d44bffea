"""Settings of all tests: hypothesis tries few examples, the same ones each time."""

from local_kit import hypothesis_profiles  # noqa: F401 - loading it chooses the profile
