"""Alarms, dashboard, budget, logs and the pages of runs."""
