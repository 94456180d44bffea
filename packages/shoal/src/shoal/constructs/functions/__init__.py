"""Lambda functions of Python files."""
