"""The first run on AWS as one program: docs/first-aws-run.md, with what it saw kept."""
