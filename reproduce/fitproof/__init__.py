"""fitproof: will this LLM post-training configuration fit in the GPU memory I have, and how do you know?

`import fitproof` is light: neither torch nor duckdb is imported until something needs them.
"""

__version__ = "0.1.0"
