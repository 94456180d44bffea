"""EventBridge: rules, patterns, delivery."""
