"""What counts as a host, a user or a path in a text column, and what does not."""

import re

import pytest

from verification.structure import LEAK

PATTERN = re.compile(LEAK.replace("''", "'"))


@pytest.mark.parametrize(
    "text",
    [
        'File "/usr/lib/python3.11/site-packages/torch/nn.py", line 3',
        "killed at /home/someone/run.sh",
        "root=/root/x/y",
        r"C:\Users\someone",
        "on gpu-node-7.cluster",
        "connect to localhost failed",
        "write to someone@example.org",
        "GPU-1a2b3c4d-0000-1111-2222-333344445555",
    ],
)
def test_leaks_are_seen(text):
    assert PATTERN.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen2.5-1.5B-Instruct",
        "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 16.00 GiB",
        "See https://pytorch.org/docs/stable/notes/cuda.html#environment-variables",
        "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Linux-6.1.0-x86_64-with-glibc2.35",
        "AttributeError: threading.local has no attribute x",
        "2026-12-01_h200_grid-part-1",
        "2.11.0+cu130",
    ],
)
def test_ordinary_text_is_not_one(text):
    assert not PATTERN.search(text)
