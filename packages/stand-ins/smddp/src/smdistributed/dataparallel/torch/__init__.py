"""The PyTorch part. Import `torch_smddp` to register the backend, as with AWS's library."""
