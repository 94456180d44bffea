"""Makes the recording that README shows; `make recording`."""
