"""One module per algorithm: the stages of its step, in order."""
