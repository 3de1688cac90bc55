"""Small configurations that a dry run follows in a second, and a cache folder of their own."""

import pytest
from fitproof.schema.settings import Settings, resolve


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch, tmp_path):
    """The user's cache stays out of it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "fitproof" / "predictions"


@pytest.fixture
def tiny():
    def run(**given) -> Settings:
        small = dict(model="fitproof/tiny-qwen3", train_batch_size=2, rollout_n=2, max_prompt_length=8,
                     max_response_length=8, max_num_seqs=4, actor_micro_batch=2, capacity_mib=8192)  # fmt: skip
        return resolve(**{**small, **given})

    return run
