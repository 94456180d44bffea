"""EventBridge Scheduler: its API, its expressions, and schedules that really call their targets."""
