"""What is checked before anything is created."""
