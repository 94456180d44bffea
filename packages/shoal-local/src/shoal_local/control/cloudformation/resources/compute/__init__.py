"""Types of functions and builds."""
