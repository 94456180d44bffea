"""The guard and the sweeper, which delete what executions leave."""
