"""CDK constructs, one file per capability, with least-privilege policies."""
