"""What the tests of shoal-local and of its users share: accounts, runtimes, ports, odd values."""
