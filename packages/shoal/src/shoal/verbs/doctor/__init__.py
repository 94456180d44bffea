"""What would fail, asked of AWS before anything is created."""
