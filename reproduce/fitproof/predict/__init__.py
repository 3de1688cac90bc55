"""Predictions: what a configuration needs, without a GPU."""
