"""What an execution of one does."""
