"""SageMaker Pipelines: runs deployed definitions through the API, with the pipeline's role."""
