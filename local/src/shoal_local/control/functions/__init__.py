"""Lambda: functions are kept, run in processes of their own, and fed from queues."""
