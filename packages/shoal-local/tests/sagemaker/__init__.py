"""A package: pytest ends its emulator, which has the scope of a package, with its last test."""
