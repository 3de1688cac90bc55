"""The card's tables that come from the data: what was planned, what became of it, and what fits.

Each query reads only published views, through the relations of `read_views`. A view that is absent or empty drops the
tables that need it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .dictionary import cell
from .load import view_files

if TYPE_CHECKING:
    import duckdb

# CPU trials exercise the path with tiny models; they answer nobody's question, so they are counted apart.
HEADLINE = """
WITH measured AS (FROM configurations WHERE eligible_trials > 0 AND device <> 'cpu')
SELECT (SELECT count(*) FROM measured),
       (SELECT count(DISTINCT model_id) FROM measured),
       (SELECT count(DISTINCT model_family) FROM measured),
       (SELECT count(*) FROM trials WHERE device <> 'cpu'),
       (SELECT count(*) FROM trials WHERE device <> 'cpu' AND state = 'memory_failure'),
       (SELECT count(*) FROM attempts WHERE device <> 'cpu'),
       (SELECT string_agg(DISTINCT device, ', ' ORDER BY device) FROM measured),
       (SELECT count(*) FROM configurations WHERE eligible_trials > 0 AND device = 'cpu')
"""

# One line per panel. Slots count the plan; attempts count what was started; labels count configurations once, under the
# first panel that planned them.
PANELS = """
WITH slots AS (
    SELECT panel, count(*) AS planned, count(*) FILTER (state = 'not started') AS not_started
    FROM panel_slots GROUP BY panel
), started AS (
    SELECT panel, count(*) AS attempts,
           count(*) FILTER (status IN ('completed', 'memory_failure')) AS eligible,
           count(*) FILTER (status = 'memory_failure') AS memory_failures,
           count(*) FILTER (status = 'ineligible') AS ineligible,
           count(*) FILTER (status = 'interrupted') AS interrupted
    FROM attempts GROUP BY panel
)
SELECT panel, planned, not_started, attempts, eligible, memory_failures, ineligible, interrupted
FROM slots LEFT JOIN started USING (panel) ORDER BY panel
"""

LABELS = """
SELECT panel, count(*), count(*) FILTER (label = 'within_margin'), count(*) FILTER (label = 'above_margin'),
       count(*) FILTER (label = 'memory_failure'), count(*) FILTER (label = 'unresolved'),
       count(*) FILTER (label IS NULL)
FROM configurations GROUP BY panel ORDER BY panel
"""

NOT_ELIGIBLE = """
SELECT status, failure_class, reason, count(*) AS n FROM attempts
WHERE status IN ('ineligible', 'interrupted') GROUP BY ALL
ORDER BY n DESC, status, failure_class, reason LIMIT 20
"""

# The largest micro-batch with a clean label and the smallest one that ran out, per setting a user recognises.
FITS = """
SELECT model_id, workload, algorithm || ', ' || adaptation, device, capacity_mib,
       capacity_source, count(*),
       max(actor_micro_batch) FILTER (label = 'within_margin'),
       min(actor_micro_batch) FILTER (label = 'above_margin'),
       min(actor_micro_batch) FILTER (label = 'memory_failure'),
       count(*) FILTER (label = 'unresolved')
FROM configurations WHERE capacity_mib IS NOT NULL AND label IS NOT NULL
GROUP BY ALL HAVING count(*) FILTER (label <> 'unresolved') > 0
ORDER BY ALL
"""

# Accuracy over the newest version of each configuration, and over frozen rows as frozen. Errors in percent.
ACCURACY = """
WITH standings AS (
    SELECT 'newest version' AS standing, * FROM prediction_errors WHERE is_latest
    UNION ALL
    SELECT 'frozen before its trials', * FROM prediction_errors WHERE is_prospective
), wide AS (
    SELECT *, measured_peak_stage IN (
        'rollout', 'rollout_logprob', 'reference_logprob', 'teacher_scoring', 'weight_sync') AS is_before_update
    FROM standings
)
SELECT method, standing, count(*), count(DISTINCT method_version),
       count(*) FILTER (is_label_right) || ' of ' || count(is_label_right),
       count(*) FILTER (is_label_right AND margin_fraction > 0.01) || ' of '
           || count(is_label_right) FILTER (margin_fraction > 0.01),
       count(reserved_error),
       {percent}
FROM wide GROUP BY method, standing ORDER BY method <> 'dry_run', method, standing DESC
"""
_PERCENT = ", ".join(
    f"format('{{:.2f}}', 100 * {how}(abs({name})){only})"
    for name, only in (
        ("allocated_error", ""),
        ("reserved_error", ""),
        ("reserved_error", " FILTER (is_before_update)"),
        ("device_used_error", ""),
        ("smallest_capacity_error", ""),
    )
    for how in ("avg", "max")
)


def read_views(root: Path, names: Sequence[str]) -> "tuple[duckdb.DuckDBPyConnection, dict[str, int]]":
    """A private connection with one relation per view that has rows, and the row counts, in the order of `names`."""
    import duckdb

    connection = duckdb.connect()
    rows = {}
    for name in names:
        files = view_files(root, name)
        if not files:
            continue
        relation = connection.read_parquet([str(path) for path in files])
        [(count,)] = relation.count("*").fetchall()
        if count:
            relation.create_view(name)
            rows[name] = count
    return connection, rows


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; integers get thousands separators, null an empty cell."""
    shown = [[f"{v:,}" if isinstance(v, int) else cell(v) for v in row] for row in rows]
    lines = [header, ["---"] * len(header), *shown]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def arrow_bytes(root: Path, name: str) -> int:
    """Bytes of a view's rows in Arrow memory: what `datasets` calls num_bytes. Read file by file."""
    import pyarrow.parquet

    return sum(pyarrow.parquet.read_table(path).nbytes for path in view_files(root, name))


def headline(connection: "duckdb.DuckDBPyConnection") -> str:
    """A few sentences of counts, one per line."""
    row = connection.execute(HEADLINE).fetchone()
    n, models, families, trials, failed, attempts, devices, on_cpu = row
    lines = []
    if n:
        kin = "family" if families == 1 else "families"
        lines += [
            f"**So far: {_n(n, 'measured configuration')} of {_n(models, 'model')} in {families} {kin};",
            f"{_n(trials, 'eligible trial')} from {_n(attempts, 'started attempt')};",
            f"{_n(failed, 'trial')} ended in a diagnosed device-memory failure.** Devices: {devices}.",
        ]
    else:
        lines.append("**No measurement on a GPU is published yet.**")
    if on_cpu:
        lines.append(f"Apart from these, {_n(on_cpu, 'tiny configuration')} on a CPU, which any machine can repeat.")
    return "\n".join(lines)


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def fits_table(connection: "duckdb.DuckDBPyConnection") -> str:
    """What fits; empty text while no configuration has a resolved label."""
    rows = connection.execute(FITS).fetchall()
    header = ["model", "workload", "update", "device", "capacity MiB", "source", "configurations",
              "largest micro-batch within margin", "smallest above margin", "smallest that failed",
              "unresolved"]  # fmt: skip
    return table(header, rows) if rows else ""


def panels_table(connection: "duckdb.DuckDBPyConnection") -> str:
    header = ["panel", "planned slots", "not started", "attempts", "eligible", "of these memory failures", "ineligible",
              "interrupted"]  # fmt: skip
    return table(header, connection.execute(PANELS).fetchall())


def labels_table(connection: "duckdb.DuckDBPyConnection") -> str:
    header = ["panel", "configurations", "`within_margin`", "`above_margin`", "`memory_failure`", "`unresolved`",
              "no label applies"]  # fmt: skip
    return table(header, connection.execute(LABELS).fetchall())


def accuracy_table(connection: "duckdb.DuckDBPyConnection") -> str:
    """How far predictions were off, by method."""
    quantities = ("allocated", "reserved", "reserved, peak before the update", "device used", "smallest capacity")
    header = ["method", "rows are", "configurations", "versions", "labels right", "of these clear", "with a peak",
              *(f"{name}: {how} %" for name in quantities for how in ("mean", "worst"))]  # fmt: skip
    return table(header, connection.execute(ACCURACY.format(percent=_PERCENT)).fetchall())


def not_eligible_table(connection: "duckdb.DuckDBPyConnection") -> str:
    """Why attempts are not trials; empty text when every attempt is one."""
    rows = connection.execute(NOT_ELIGIBLE).fetchall()
    return table(["status", "failure class", "reason", "attempts"], rows) if rows else ""
