"""The TensorFlow part of both stand-ins."""
