"""CloudFormation: stacks are created, updated and deleted through the emulated APIs."""
