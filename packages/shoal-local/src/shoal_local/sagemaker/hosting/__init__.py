"""Models, endpoint configurations and endpoints, served by real processes."""
