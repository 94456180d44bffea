"""From a request to the account and the service that answers it."""
