"""--set and --config: typed by the schema, collected errors, --set wins, defaults that were taken are known."""

import json

import pytest
from fitproof.cli.settings_args import capacity_mib, given_settings, parse_settings, typed, unset_defaults
from fitproof.errors import SettingsError
from fitproof.schema.settings import resolve


@pytest.mark.parametrize(
    ("text", "mib"),
    [("24576", 24576), ("24576MiB", 24576), ("24GiB", 24576), ("24 gib", 24576), ("1.5GiB", 1536), ("1TiB", 1048576)],
)
def test_a_capacity_in_mib_or_gib(text, mib):
    assert capacity_mib(text) == mib


@pytest.mark.parametrize("text", ["24GB", "24G", "24000mb", "-1", "0", "0.3MiB", "big", "", "1e3", "24GiB5"])
def test_other_capacities_are_refused(text):
    with pytest.raises(ValueError, match="capacity"):
        capacity_mib(text)


def test_values_take_the_type_of_their_setting():
    assert typed("use_kl", "No") is False
    assert typed("deterministic", "true") is True
    assert typed("rollout_n", "8") == 8
    assert typed("capacity_mib", "null") is None
    assert typed("quantization", "none") == "none"  # a choice of its own, not a null
    assert typed("padding", "none") == "none"
    assert typed("kv_reservation", "0.60") == "0.60"
    assert typed("kv_reservation", "none") is None
    assert typed("reference", "auto") == "auto"
    assert typed("rollout_n", 8) == 8


def test_set_wins_over_config_and_aliases_work(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("model: Qwen3-1.7B\nrollout_n: 2\nuse_kl: no\nkv_reservation: 0.6\ncapacity: 24GiB\n")
    settings = parse_settings(["rollout_n=8", "engine=cuda_graph"], config)
    assert (settings.model_id, settings.rollout_n, settings.use_kl) == ("Qwen/Qwen3-1.7B", 8, False)
    assert (settings.capacity_mib, settings.capacity_source, settings.kv_reservation) == (24576, "emulated", "0.6")


def test_json_and_yaml_and_flags_give_one_identity(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"model_id": "Qwen/Qwen3-0.6B", "capacity_mib": 16384}))
    (tmp_path / "a.yml").write_text("model: Qwen3-0.6B\ncapacity: 16GiB\n")
    ids = {
        parse_settings([], tmp_path / "a.json").settings_id,
        parse_settings([], tmp_path / "a.yml").settings_id,
        parse_settings(["model=Qwen3-0.6B", "capacity=16384"]).settings_id,
    }
    assert len(ids) == 1


def test_every_problem_is_named_at_once_with_a_suggestion():
    with pytest.raises(SettingsError) as caught:
        parse_settings(["rolout_n=8", "actor_micro_batch=two", "use_kl=perhaps", "capacity=24GB"])
    text = str(caught.value)
    assert "'rolout_n' is no setting; did you mean 'rollout_n'?" in text
    assert "actor_micro_batch='two' is not an integer" in text
    assert "use_kl='perhaps' is not true or false" in text
    assert "a 24 GB card is asked for as 24GiB" in text
    assert caught.value.exit_code == 2


def test_one_setting_twice_under_two_names_is_refused():
    with pytest.raises(SettingsError, match="capacity_mib is given twice, as 'capacity' and 'capacity_mib'"):
        given_settings(["capacity=24GiB", "capacity_mib=24576"])


def test_a_repeated_json_key_is_refused(tmp_path):
    path = tmp_path / "twice.json"
    path.write_text('{"rollout_n": 2, "rollout_n": 4}')
    with pytest.raises(SettingsError, match="rollout_n is given twice"):
        parse_settings([], path)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("absent.json", None, "No such file"),
        ("broken.json", "{", "no JSON"),
        ("list.json", "[1]", "expected: a flat mapping"),
        ("nested.json", '{"lora": {"rank": 8}}', "'lora' with dict"),
        ("broken.yaml", "a: [", "no YAML"),
        ("text.yaml", "just text", "expected: a flat mapping"),
        ("binary.json", b"\xff\xfe", "codec can't decode"),
    ],
)
def test_bad_config_files_say_what_is_wrong(tmp_path, name, text, words):
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=words):
        parse_settings([], path)


def test_no_equals_sign_is_a_wrong_call():
    with pytest.raises(SettingsError, match="no key=value"):
        parse_settings(["rollout_n"])


def test_the_schema_still_judges_combinations():
    with pytest.raises(SettingsError, match="grpo needs rollout_n >= 2"):
        parse_settings(["rollout_n=1"])


def test_unset_defaults_are_what_the_user_left_open():
    given = given_settings(["model=Qwen3-0.6B", "rollout_n=8"])
    settings = resolve(**given)
    unset = unset_defaults(given, settings)
    assert "model_id" not in unset
    assert "rollout_n" not in unset
    assert unset["lora_rank"] == 8
    assert "teacher_id" not in unset  # null: does not apply
