"""Records of developer workloads: `<folder>/workload-<engine>.json`, checked alone and against their attempts."""

import re

from ..schema import records
from .documents import RecordError, checked, one_of, strict_json, utc_text
from .panels import Panel

OWN_ENGINE = "fitproof"
MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/" + records.WORKLOAD_FILE.format(r"[A-Za-z0-9.-]+"), re.ASCII)


def workload_row(data: bytes, where: str, archive: str) -> dict:
    """A row of raw_workloads. Raises EvidenceError for what is no such record.

    Our own workload names its attempts and has no figures of its own; a peer's has figures and no attempts.
    """
    record = checked(strict_json(data, where), records.WORKLOAD, where)
    one_of(record, "schema_version", (records.SCHEMA_VERSION,), where)
    one_of(record, "workload", ("opd",), where)
    utc_text(record, "created_at", where)
    if not all(type(line) is str for line in record["differences"]):
        raise RecordError(where, found="differences that are no text", expected="one line each")
    is_own = record["engine"] == OWN_ENGINE
    if (record["attempts"] is not None, record["figures"] is not None) != (is_own, not is_own):
        raise RecordError(
            where, found=f"engine {record['engine']!r} with attempts or figures that do not go with it",
            expected="attempts for fitproof, figures for a peer",
        )  # fmt: skip
    row = {"archive": archive, **{k: v for k, v in record.items() if k not in ("attempts", "figures")}}
    for name, spec in (("attempts", records.WORKLOAD_ATTEMPTS), ("figures", records.WORKLOAD_FIGURES)):
        if record[name] is not None:
            row |= checked(record[name], spec, f"{where} {name}")
    for name in ("positions", "rollout_ns", "teacher_ns", "update_ns"):  # a rate over no time is no rate
        if record["figures"] is not None and row[name] is not None and row[name] <= 0:
            raise RecordError(f"{where} figures", found=f"{name} {row[name]}", expected="a positive integer, or null")
    return row


def check_attempts(row: dict, panels: dict[str, Panel], where: str) -> None:
    """Every attempt that our own workload names lies in this archive, of its device and campaign, ended as told."""
    if row["engine"] != OWN_ENGINE:
        return
    for panel, slot_id, attempt, status in (
        ("panel", "slot_id", "attempt", "completed"),
        ("resumed_panel", "resumed_slot_id", "interrupted_attempt", None),
        ("resumed_panel", "resumed_slot_id", "resumed_attempt", "completed"),
    ):
        place = f"{row[panel]}/{row[slot_id]}/attempt-{row[attempt]}"
        holder = panels.get(row[panel])
        found = holder.attempts.get((row[slot_id], row[attempt])) if holder else None
        if found is None:
            raise RecordError(where, found=f"{place}, which this archive does not hold", expected="its attempts")
        told = {"status": status, "device": row["device"], "campaign": row["campaign"]}
        there = {"status": found.status, "device": found.stack.device, "campaign": found.campaign}
        if told != there:
            raise RecordError(where, found=f"{place} with {there}", expected=f"{told}")
