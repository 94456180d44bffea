"""One file per section of an environment file: its types, its rules, its messages."""
