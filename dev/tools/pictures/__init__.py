"""Pictures of what a deployment consists of, drawn from synthesised templates as Mermaid's text.

`page` is the whole page; `stacks`, `network` and `roles` have a chart each; `mermaid` writes it.
"""
