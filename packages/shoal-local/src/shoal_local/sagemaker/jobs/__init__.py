"""Training and processing jobs, run in containers with their data in S3."""
