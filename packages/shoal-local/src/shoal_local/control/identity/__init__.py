"""Who asks, with which credentials, and what policies may say."""
