"""SageMaker Pipelines: a deployed definition in; steps driven through the API with the pipeline's
role, statuses and events out.
"""
