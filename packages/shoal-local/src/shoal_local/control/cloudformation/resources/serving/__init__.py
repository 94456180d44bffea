"""Types of models, endpoints, alarms and parameters."""
