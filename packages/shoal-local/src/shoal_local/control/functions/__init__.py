"""Lambda: functions run in processes of their own, and queues feed them."""
