"""What starts the pipeline by itself, and the alarms on that."""
