"""Types of IAM."""
