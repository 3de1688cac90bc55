"""Section opd: the OPD developer workload, ours by the command, miniVERL's on the same weights and prompts."""

import json
import shutil
import sys
from pathlib import Path

from fitproof.cli.settings_args import given_settings
from fitproof.runner.workloads.pairs import PROMPTS, workload_settings

from . import miniverl_pair
from .processes import Clock, Skipped, run_module, run_verb
from .table import Row

PEER = f"miniverl {miniverl_pair.VERSION}"


def measure(args, scratch: Path, clock: Clock) -> tuple[list[Row], dict]:
    """Rows and raw output. Our runs first: a peer that takes too long costs only itself."""
    raw, rows = {"ours": {}, "peer": None}, []
    pair = "tiny" if args.tiny else args.pair
    for micro_batch in args.update_batch:
        sets = [*args.opd_set, *([] if micro_batch == 1 else [f"actor_micro_batch={micro_batch}"])]
        out = (args.records or scratch) / f"opd-batch-{micro_batch}"
        given = [part for text in sets for part in ("--set", text)]
        raw["ours"][micro_batch] = run_verb(
            "workload", "opd", "--pair", pair, "--out", out, "--campaign", args.campaign, *given,
            clock=clock, log=scratch / "opd.log",
        )  # fmt: skip
        for line in raw["ours"][micro_batch]["record"]["differences"]:
            print(f"opd, batch {micro_batch}: {line}", file=sys.stderr)
    try:
        raw["peer"] = _peer(args, pair, scratch, clock)
    except Skipped as reason:
        raw["peer_skipped"] = str(reason)
    first, *_ = (answer["figures"] for answer in raw["ours"].values())
    peer = _rates(raw["peer"]) if raw["peer"] else {}

    def row(measure: str, ours: float | None, name: str, target: float | None, higher: bool = True) -> Row:
        return Row(section="opd", measure=measure, ours=ours, peer=peer.get(name), peer_name=PEER,
                   target=None if args.tiny else target, higher_is_better=higher)  # fmt: skip

    rows.append(row("rollout tokens/s", first["rollout_tokens_per_second"], "rollout_tokens_per_second", 550))
    rows.append(
        row("teacher positions/s", first["teacher_positions_per_second"], "teacher_positions_per_second", 6_500)
    )
    for micro_batch, answer in raw["ours"].items():
        name = "update_positions_per_second"
        rows.append(row(f"update positions/s, batch {micro_batch}", answer["figures"][name], name,
                        400 if micro_batch == 1 else 1_500))  # fmt: skip
        rows.append(row(f"peak reserved GiB, batch {micro_batch}", answer["figures"]["peak_reserved_bytes"] / 2**30,
                        "peak_reserved_gib", 2.5 if micro_batch == 1 else None, False))  # fmt: skip
    for name, target in (("recovery_pair_seconds", 45), ("cold_start_seconds", None), ("first_update_seconds", None),
                         ("resume_load_seconds", None)):  # fmt: skip
        rows.append(row(name.replace("_", " "), first[name], name, target, False))
    return rows, raw


def _peer(args, pair: str, scratch: Path, clock: Clock) -> dict:
    if args.no_peers:
        raise Skipped("asked for no peers")
    settings = workload_settings(pair, given_settings(args.peer_set))
    miniverl_pair.need("miniverl", miniverl_pair.VERSION)  # before gigabytes are written for it
    materials, runs = scratch / "opd-materials", scratch / "miniverl"
    device = "cpu" if args.tiny else "cuda"
    given = ("--settings", json.dumps(settings.identity()), "--device", device, "--prompts", PROMPTS)
    run_module("benchmarks.runner.materials", materials, *given, clock=clock, log=scratch / "materials.log")
    runs.mkdir()
    record = miniverl_pair.measure(settings, pair, args.campaign, materials, runs, device, clock)
    if args.records:
        folder = args.records / "peers" / "peers"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"workload-miniverl-{miniverl_pair.VERSION}-{pair}.json").write_text(
            json.dumps(record, indent=1) + "\n"
        )
        shutil.copy(runs / "whole" / "opd" / "metrics.jsonl", scratch / "miniverl-metrics.jsonl")
    return record


def _rates(record: dict) -> dict[str, float | None]:
    f = record["figures"]
    return {
        "rollout_tokens_per_second": f["positions"] / (f["rollout_ns"] / 1e9),
        "teacher_positions_per_second": f["positions"] / (f["teacher_ns"] / 1e9),
        "update_positions_per_second": f["positions"] / (f["update_ns"] / 1e9),
        "peak_reserved_gib": f["peak_reserved_bytes"] and f["peak_reserved_bytes"] / 2**30,
        "recovery_pair_seconds": record["recovery_pair_ns"] / 1e9,
        "cold_start_seconds": f["cold_start_ns"] / 1e9,
        "first_update_seconds": f["first_update_ns"] / 1e9,
        "resume_load_seconds": f["resume_load_ns"] and f["resume_load_ns"] / 1e9,
    }
