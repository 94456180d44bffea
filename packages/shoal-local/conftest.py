"""Settings of all tests: hypothesis tries few examples, the same ones each time."""

from local_kit import values  # noqa: F401 - loading it chooses hypothesis's profile
