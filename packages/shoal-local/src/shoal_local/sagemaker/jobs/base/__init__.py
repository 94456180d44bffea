"""What every kind of job has: paths, channels, containers, logs, an end."""
