"""What runner_bench.py measures: our own runs, and peers driven through their public interfaces, each in a process of
its own on the same random weights and prompts.
"""
