"""What an environment costs, before it is deployed; pure, like the rest of `pipelines`."""
