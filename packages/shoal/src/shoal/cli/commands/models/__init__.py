"""Commands about models: data, runs, schedules, promotion."""
