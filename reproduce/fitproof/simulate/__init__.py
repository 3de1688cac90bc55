"""The dry run: a trial on fake tensors, its memory events, and the allocator and device that they are replayed on."""
