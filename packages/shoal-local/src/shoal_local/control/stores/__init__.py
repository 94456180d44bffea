"""Services that only keep what they are told."""
