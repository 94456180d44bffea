"""MLflow tracking servers: real `mlflow server` processes."""
