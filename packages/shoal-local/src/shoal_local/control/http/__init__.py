"""The port: protocol, signatures, guards and the log of requests."""
