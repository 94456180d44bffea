"""Types of topics, queues, rules and schedules."""
