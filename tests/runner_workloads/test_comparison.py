"""Comparing checkpoints without torch, against files that the safetensors library wrote."""

import torch
from fitproof.runner.workloads.comparison import compare, tensor_differences
from safetensors.torch import save_file

TENSORS = {"a": torch.arange(6, dtype=torch.float32).view(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}


def differences(tmp_path, **changed):
    save_file(TENSORS, tmp_path / "one.safetensors")
    save_file({**TENSORS, **changed}, tmp_path / "other.safetensors")
    return tensor_differences(tmp_path / "one.safetensors", tmp_path / "other.safetensors", "adapter")


def test_equal_files_do_not_differ(tmp_path):
    assert differences(tmp_path) == []


def test_a_negative_zero_is_not_a_zero(tmp_path):
    assert differences(tmp_path, b=-TENSORS["b"]) == ["adapter: b differs in 4 of 8 bytes"]


def test_another_type_or_shape_is_named(tmp_path):
    assert differences(tmp_path, a=TENSORS["a"].view(3, 2)) == ["adapter: a is F32 [2, 3] and F32 [3, 2]"]
    assert differences(tmp_path, a=TENSORS["a"].double()) == ["adapter: a is F32 [2, 3] and F64 [2, 3]"]


def test_a_tensor_in_one_file_only_is_named(tmp_path):
    assert differences(tmp_path, c=torch.ones(1)) == ["adapter: c stands in one run only"]


def checkpoint(folder):
    folder.mkdir()
    for name in ("adapter_model", "actor-optimizer", "random"):
        save_file(TENSORS, folder / f"{name}.safetensors")
    (folder / "state.json").write_text('{"step": 8, "optimizer_numbers": {"actor": {}}}')
    return folder


def test_a_trajectory_must_be_told_in_full_and_never_otherwise(tmp_path):
    one, other = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "other")
    whole = {1: "a", 2: "b"}
    assert compare(one, other, whole, [{1: "a"}, {2: "b"}]).is_exact
    assert compare(one, other, whole, [{1: "a", 2: "b"}, {2: "b"}]).is_exact
    short = compare(one, other, whole, [{1: "a"}])
    assert (short.is_trajectory_equal, short.differences) == (
        False, ["trajectory: step 2 was not rolled out by the interrupted run"]
    )  # fmt: skip
    assert not compare(one, other, whole, [{1: "a", 2: "b"}, {2: "c"}]).is_exact
    assert not compare(one, other, whole, [{1: "a"}, {2: "b", 3: "c"}]).is_exact
    assert not compare(one, other, {}, [{}]).is_exact
