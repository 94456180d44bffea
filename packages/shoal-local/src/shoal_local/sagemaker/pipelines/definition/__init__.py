"""What a definition says."""
