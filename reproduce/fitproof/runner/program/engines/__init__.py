"""Rollout engines: each turns prompts into full sequences of prompt and response ids."""
