"""Key, buckets, file system, and the place of sealed models."""
