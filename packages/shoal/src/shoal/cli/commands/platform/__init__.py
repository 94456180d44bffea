"""Commands about an environment: plan, deploy, look, delete."""
