"""The endpoint of a pinned release."""
