"""View `configurations`: settings, counts, label and peaks."""

from ..view import Column, View
from .columns import CONFIGURATION_ID, DEVICE, NEVER, ON_CPU, SETTING_COLUMNS, SETTINGS_ID

_NO_PEAK = "no completed trial with a known value in the first campaign"
_NO_LIMIT = f"{ON_CPU}, or no eligible trial in the first campaign"
_FIRST = ("model_id", "workload", "capacity_mib")

CONFIGURATIONS = View(
    name="configurations",
    split="measured",
    grain="configuration: settings, capacity, steps, device and stack",
    meaning="What was measured and whether it fits. Counts, label and peaks are those of the configuration's first "
    "campaign; `campaigns` says whether there are more. Planned configurations without an attempt are rows too.",
    key=("configuration_id",),
    columns=(
        *(SETTING_COLUMNS[name] for name in _FIRST),
        Column("label", "VARCHAR", "", f"{ON_CPU}, or capacity below 4,096 MiB",
               "Over the three smallest seeds with an eligible trial, one trial a seed (started first), all against "
               "limit_mib: memory_failure (at least one failed), within_margin (all completed, every peak <= limit), "
               "above_margin (all completed, a peak above it); unresolved with fewer than three, or where none failed "
               "and a peak is unknown."),
        Column("single_run_state", "VARCHAR", "", f"no eligible trial; {ON_CPU} or with an unknown peak unless it failed",
               "State of the eligible trial with the smallest seed, against its own limit; says nothing about other "
               "seeds."),
        Column("is_within_5_percent", "BOOLEAN", "", f"{ON_CPU}, no eligible trial, or a peak is unknown",
               "Every eligible trial completed with a peak of device used <= 95 % of its effective capacity."),
        Column("limit_mib", "DOUBLE", "MiB", _NO_LIMIT,
               "Operating limit: smallest effective capacity of the up to three trials behind the label, minus 2,048 MiB."),
        Column("max_completed_peak_mib", "DOUBLE", "MiB", _NO_PEAK,
               "Largest peak of device used of a completed trial."),
        Column("max_completed_reserved_mib", "DOUBLE", "MiB", _NO_PEAK, "Largest peak reserved of a completed trial."),
        Column("max_completed_allocated_mib", "DOUBLE", "MiB", _NO_PEAK,
               "Largest peak allocated of a completed trial."),
        Column("max_completed_process_mib", "DOUBLE", "MiB", _NO_PEAK,
               "Largest process-used sample of a completed trial."),
        Column("eligible_trials", "BIGINT", "count", NEVER, "Eligible trials."),
        Column("distinct_seeds", "BIGINT", "count", NEVER, "Distinct seeds with an eligible trial."),
        Column("completed_trials", "BIGINT", "count", NEVER, "Eligible trials that completed."),
        Column("memory_failures", "BIGINT", "count", NEVER, "Eligible trials that are diagnosed memory failures."),
        Column("above_margin_trials", "BIGINT", "count", NEVER,
               "Completed trials whose peak is above their own limit."),
        Column("attempts", "BIGINT", "count", NEVER, "Started attempts, every status."),
        Column("planned_slots", "BIGINT", "count", NEVER, "Planned slots in all panels and campaigns."),
        Column("campaign", "VARCHAR", "", "no attempt was started",
               "First campaign: the one whose first attempt started first."),
        Column("campaigns", "BIGINT", "count", NEVER, "Campaigns with an attempt."),
        Column("panel", "VARCHAR", "", NEVER,
               "First panel that planned it: the one whose first attempt started first, then by name."),
        DEVICE,
        Column("device_kind", "VARCHAR", "", NEVER, "cuda, rocm or cpu."),
        Column("torch_version", "VARCHAR", "", NEVER, "major.minor of torch."),
        Column("transformers_version", "VARCHAR", "", NEVER, "major.minor of transformers."),
        Column("min_effective_capacity_bytes", "BIGINT", "bytes", _NO_LIMIT,
               "Smallest free memory that the runtime reported just before an eligible trial's child made its "
               "context."),
        Column("model_family", "VARCHAR", "", NEVER, "Family of the model, as in the catalogue."),
        *(column for name, column in SETTING_COLUMNS.items() if name not in _FIRST),
        CONFIGURATION_ID,
        SETTINGS_ID,
    ),
)  # fmt: skip
