"""Section decode: tokens per second of a whole second rollout call, set-up included, against transformers' generate."""

import json
from pathlib import Path

from .processes import Clock, Skipped, run_module
from .table import Row

# (batch, new tokens): tokens per second to reach
SHAPES = {(4, 64): 1_000, (32, 128): 6_000, (128, 256): 16_000}
TINY_SHAPES = {(2, 8): None, (4, 16): None}
SET_UP_SECONDS = 0.5


def measure(args, scratch: Path, clock: Clock) -> tuple[list[Row], dict]:
    shapes = TINY_SHAPES if args.tiny else SHAPES
    peers = [] if args.no_peers else ["generate", *(["compiled"] if args.compiled else [])]
    raw: dict = {}
    for who in ("ours", *peers):
        try:
            raw[who] = run_module(
                "benchmarks.runner.decode_child", who, json.dumps(list(shapes)), *(["--tiny"] if args.tiny else []),
                clock=clock, log=scratch / "decode.log",
            )  # fmt: skip
        except Skipped as reason:
            if who == "ours":
                raise
            raw[f"{who}_skipped"] = str(reason)
    rows = []
    for number, ((batch, new), target) in enumerate(shapes.items()):
        ours = raw["ours"]["shapes"][number]
        measured = [who for who in peers if who in raw] or [None]
        for who in measured:
            peer = raw[who]["shapes"][number]["tokens_per_second"] if who else None
            rows.append(Row(section="decode", measure=f"tokens/s, {batch} x {new}", ours=ours["tokens_per_second"],
                            peer=peer, peer_name=f"transformers {who or 'generate'}", target=target))  # fmt: skip
        rows.append(Row(section="decode", measure=f"set-up seconds, {batch} x {new}", ours=ours["set_up_seconds"],
                        peer=None, peer_name="", target=None if args.tiny else SET_UP_SECONDS,
                        higher_is_better=False))  # fmt: skip
    return rows, raw
