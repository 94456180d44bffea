"""`shoal demo`: deploy one environment, train, evaluate, register, serve, and tear it down."""
