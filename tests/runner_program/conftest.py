import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for program_cases
pytest.register_assert_rewrite("settings_effects")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)  # the tensors are tiny, and waiting threads spin
