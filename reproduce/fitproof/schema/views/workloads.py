"""View `opd_workloads`: the on-policy distillation workload, run through, interrupted and resumed; and peers' runs of it."""

from ..view import Column, ForeignKey, View
from .columns import ARCHIVE, DEVICE, NEVER

_UNSAID = "a peer that does not say"
_PEER = "a peer's run"
_MEDIAN = "Median over cycles 2 to the last of the uninterrupted run."

OPD_WORKLOADS = View(
    name="opd_workloads",
    split="measured",
    grain="run of the workload: a model pair, an engine, a device and a name",
    meaning="A student learns from a teacher's 32 most likely tokens on its own rollouts: once through, and once "
    "interrupted after half of the updates and resumed in a fresh process. Speed, memory and sizes are those of the "
    "uninterrupted run. Positions are response positions, those that enter the loss. Weights are random.",
    key=("pair", "engine", "device", "run"),
    foreign_keys=(
        ForeignKey(("configuration_id",), "configurations", ("configuration_id",)),
        ForeignKey(("trial_id",), "trials", ("trial_id",)),
        ForeignKey(("resumed_trial_id",), "trials", ("trial_id",)),
    ),
    columns=(
        Column("pair", "VARCHAR", "", NEVER,
               "Student and teacher: qwen3 (0.6B, 1.7B), smollm2 (360M, 1.7B), or tiny (on a CPU)."),
        Column("engine", "VARCHAR", "", NEVER, "fitproof, or a peer's name and version."),
        DEVICE,
        Column("run", "VARCHAR", "", NEVER, "Name of the run: its campaign, and the settings that differ from the workload."),
        Column("rollout_tokens_per_second", "DOUBLE", "tokens/second", NEVER, "Tokens of a cycle / rollout_seconds."),
        Column("teacher_positions_per_second", "DOUBLE", "positions/second", _UNSAID,
               "Response positions of a cycle / teacher_seconds."),
        Column("update_positions_per_second", "DOUBLE", "positions/second", NEVER,
               "Response positions of a cycle / update_seconds."),
        Column("rollout_seconds", "DOUBLE", "seconds", NEVER, f"Rollout of a cycle. {_MEDIAN}"),
        Column("teacher_seconds", "DOUBLE", "seconds", _UNSAID, f"Teacher scoring of a cycle. {_MEDIAN}"),
        Column("update_seconds", "DOUBLE", "seconds", NEVER, f"Update of a cycle. {_MEDIAN}"),
        Column("import_seconds", "DOUBLE", "seconds", _UNSAID,
               "Start of the first process until the stack was imported, once for all three."),
        Column("cold_start_seconds", "DOUBLE", "seconds", _UNSAID,
               "Start of the uninterrupted process, its imports done, until everything was built."),
        Column("first_rollout_seconds", "DOUBLE", "seconds", _UNSAID, "The same until the end of the first rollout."),
        Column("first_update_seconds", "DOUBLE", "seconds", _UNSAID, "The same until the end of the first update."),
        Column("resume_load_seconds", "DOUBLE", "seconds", _UNSAID,
               "Reading and taking up the checkpoint in the fresh process."),
        Column("recovery_pair_seconds", "DOUBLE", "seconds", NEVER,
               "Start of the first process to the end of the comparison: both runs, imports included."),
        Column("peak_allocated_bytes", "BIGINT", "bytes", _UNSAID, "Most bytes held by live tensors."),
        Column("peak_reserved_bytes", "BIGINT", "bytes", _UNSAID,
               "Most bytes the caching allocator held from the driver."),
        Column("downshifts", "BIGINT", "count", _UNSAID, "Smaller vocabulary chunks after running out of memory."),
        Column("teacher_cache_bytes", "BIGINT", "bytes", _UNSAID, "The teacher's scores of one cycle."),
        Column("checkpoint_bytes", "BIGINT", "bytes", _UNSAID, "Files of one checkpoint."),
        Column("adapter_bytes", "BIGINT", "bytes", _UNSAID, "Files of the exported adapter."),
        Column("run_bytes", "BIGINT", "bytes", _UNSAID,
               "All files that the uninterrupted run left, its checkpoints included."),
        Column("is_resume_exact", "BOOLEAN", "", NEVER,
               "The resumed run equals the uninterrupted one to the byte: trajectory, adapter, optimizer and state."),
        Column("is_trajectory_equal", "BOOLEAN", "", NEVER,
               "Every rollout is equal: as the comparison said and, of our own runs, as the attempts' digests say."),
        Column("is_adapter_equal", "BOOLEAN", "", NEVER, "Every adapter tensor is equal to the byte."),
        Column("is_optimizer_equal", "BOOLEAN", "", NEVER, "Every optimizer tensor is equal to the byte."),
        Column("is_state_equal", "BOOLEAN", "", NEVER, "Every other field of the training state is equal."),
        Column("is_adapter_loadable", "BOOLEAN", "", _UNSAID, "Plain peft loads the exported adapter, tensor by tensor."),
        Column("differences", "VARCHAR", "", "there are none", "What differs, joined by '; '."),
        Column("cycles", "BIGINT", "count", _PEER, "Cycles of rollout, teacher scoring and update."),
        Column("positions", "BIGINT", "positions", NEVER, "Response positions of one cycle, which are its rollout tokens."),
        Column("actor_micro_batch", "BIGINT", "sequences", _PEER, "Sequences per forward and backward pass of the update."),
        Column("rollout_engine", "VARCHAR", "", _PEER, "Engine of the rollout."),
        Column("quantization", "VARCHAR", "", _PEER, "Storage of the frozen base weights."),
        Column("created_at", "TIMESTAMP", "UTC", NEVER, "When the record was written."),
        ARCHIVE,
        Column("trial_id", "VARCHAR", "", _PEER, "Trial of the uninterrupted run."),
        Column("resumed_trial_id", "VARCHAR", "", _PEER, "Trial of the run that was resumed."),
        Column("configuration_id", "VARCHAR", "", _PEER, "The configuration of both."),
    ),
)  # fmt: skip
