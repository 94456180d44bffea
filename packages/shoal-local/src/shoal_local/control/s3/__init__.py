"""S3 where moto is not enough: bodies, events, guards, checksums."""
