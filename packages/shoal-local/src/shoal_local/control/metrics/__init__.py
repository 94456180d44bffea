"""Metrics and alarms."""
