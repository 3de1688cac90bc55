"""Views `stage_peaks`, `memory_samples` and `iteration_costs`: inside a trial."""

from ..view import Column, ForeignKey, View
from .columns import CONFIGURATION_ID, NEVER, STAGE, TRIAL_ID

_TRIAL = ForeignKey(("trial_id",), "trials", ("trial_id",))
_OUTSIDE = "the sample lies between stages, before the first or after the last"
_BLIND = "no stage end or failure event with a value"

STAGE_PEAKS = View(
    name="stage_peaks",
    split="measured",
    grain="stage of a trial, all its steps together",
    meaning="Peaks and time per stage. Where the trial ended inside a stage its row has coverage terminal_partial: "
    "peaks so far, which are not what the stage would have needed.",
    key=("trial_id", "stage"),
    foreign_keys=(_TRIAL,),
    columns=(
        TRIAL_ID,
        STAGE,
        Column("coverage", "VARCHAR", "", NEVER, "completed, or terminal_partial: the trial ended inside this stage."),
        Column("peak_device_used_bytes", "BIGINT", "bytes", "no samples in the stage and no process overhead",
               "The larger of largest_device_used_sample_bytes and reserved_plus_overhead_bytes."),
        Column("peak_process_used_bytes", "BIGINT", "bytes", "no process-used samples in the stage",
               "Largest process-used sample."),
        Column("peak_reserved_bytes", "BIGINT", "bytes", _BLIND,
               "Most bytes the caching allocator held from the driver."),
        Column("peak_allocated_bytes", "BIGINT", "bytes", _BLIND, "Most bytes held by live tensors."),
        Column("largest_device_used_sample_bytes", "BIGINT", "bytes", "no samples in the stage",
               "Largest device-used sample."),
        Column("reserved_plus_overhead_bytes", "BIGINT", "bytes", "no peak reserved, or no process overhead",
               "peak_reserved_bytes + the trial's process_overhead_bytes."),
        Column("seconds", "DOUBLE", "seconds", NEVER,
               "Time in the stage; an unfinished run counts up to the failure, or else to the last event or sample."),
        Column("runs", "BIGINT", "count", NEVER, "Times the stage began."),
        Column("completed_runs", "BIGINT", "count", NEVER, "Times it also ended."),
        Column("tokens", "BIGINT", "tokens", "the stage counts none", "Positions processed by completed runs."),
        Column("sample_count", "BIGINT", "count", NEVER, "Memory samples inside the stage."),
        CONFIGURATION_ID,
    ),
)  # fmt: skip

MEMORY_SAMPLES = View(
    name="memory_samples",
    split="measured",
    grain="thinned memory sample of a trial",
    meaning="Per trial, stage interval and 100 ms from the interval's begin: the first sample, the earliest maximum of "
    "device used, the earliest maximum of process used; plus the last sample of each interval. Stretches between "
    "stages are intervals of their own. Peaks in `trials` are taken from all samples, and thinning keeps them.",
    key=("trial_id", "sample"),
    foreign_keys=(_TRIAL,),
    is_per_archive=True,
    columns=(
        TRIAL_ID,
        Column("sample", "BIGINT", "", NEVER, "Row of the trial's memory.csv, from 0."),
        Column("elapsed_seconds", "DOUBLE", "seconds", NEVER, "Time since the trial's first sample."),
        Column("stage", "VARCHAR", "", _OUTSIDE, "Stage during which the sample was taken."),
        Column("step", "BIGINT", "", _OUTSIDE, "Step of that stage; 0 while initializing."),
        Column("interval", "BIGINT", "", NEVER, "Number of stage begins, ends and failures before the sample."),
        Column("device_index", "BIGINT", "", NEVER, "Index of the device."),
        Column("device_used_bytes", "BIGINT", "bytes", "a CPU trial that did not state its start",
               "The monitor's used bytes minus its reading before the child; may be negative if others freed memory."),
        Column("process_used_bytes", "BIGINT", "bytes", "the driver gives none (some containers)",
               "Bytes used by the process."),
    ),
)  # fmt: skip

ITERATION_COSTS = View(
    name="iteration_costs",
    split="measured",
    grain="completed stage of one step of a trial",
    meaning="Time and tokens, step by step. The first step also pays for what is done once, such as graph capture.",
    key=("trial_id", "step", "stage"),
    foreign_keys=(_TRIAL,),
    columns=(
        TRIAL_ID,
        Column("step", "BIGINT", "", NEVER, "0 while initializing, then 1, 2, ..."),
        STAGE,
        Column("seconds", "DOUBLE", "seconds", NEVER, "Time in the stage during this step."),
        Column("tokens", "BIGINT", "tokens", "the stage counts none", "Positions processed."),
        Column("tokens_per_second", "DOUBLE", "tokens/second", "no tokens are counted, or no time passed",
               "tokens / seconds."),
        Column("runs", "BIGINT", "count", NEVER, "Completed runs of the stage within the step."),
        CONFIGURATION_ID,
    ),
)  # fmt: skip
