"""Types of buckets, keys and repositories."""
