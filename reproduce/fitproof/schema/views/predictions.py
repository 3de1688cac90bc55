"""Views `predictions` and `prediction_errors`: what was predicted, and how it compares with what was measured."""

from ..view import Column, ForeignKey, View
from .columns import (
    ARCHIVE,
    CONFIGURATION_ID,
    DEVICE,
    MODEL_ID,
    NEVER,
    ON_CPU,
    SETTING_COLUMNS,
    SETTINGS_ID,
    WORKLOAD,
)

_SILENT = "the method does not say"
_FAILED = "a trial of the configuration failed"
_NO_MEASURED = f"{_FAILED}, or no peak was measured"
_NOT_BISECTED = "not bisected within 2 %, or the settings have a kv_reservation"
_KEY = ("configuration_id", "method", "method_version")

_METHOD = Column("method", "VARCHAR", "", NEVER,
                 "dry_run, the name of a statistical estimator, or a peer by its package name.")  # fmt: skip
_METHOD_VERSION = Column("method_version", "VARCHAR", "", NEVER,
                         "Version of the method; for dry_run the package version and 8 hex digits over code, GPU profile "
                         "and the versions of torch, transformers and peft that made it.")  # fmt: skip
_MODEL_FAMILY = Column("model_family", "VARCHAR", "", NEVER, "Family of the model, as in the catalogue.")
_ASKED = Column("capacity_mib", "BIGINT", "MiB", "the whole card was asked for", "Asked capacity.")
_PREDICTED = (
    Column("predicted_label", "VARCHAR", "", f"{_SILENT}, or capacity below 4,096 MiB",
           "within_margin, above_margin or memory_failure: what three such trials would give."),
    Column("predicted_peak_allocated_bytes", "BIGINT", "bytes", _SILENT,
           "Most bytes held by live tensors; before a predicted failure what is held until then."),
    Column("predicted_peak_reserved_bytes", "BIGINT", "bytes", _SILENT,
           "Most bytes the caching allocator holds; before a predicted failure what is held until then."),
    Column("predicted_peak_device_used_bytes", "BIGINT", "bytes", _SILENT,
           "Largest device use of the trial; before a predicted failure what is held until then."),
    Column("predicted_smallest_capacity_bytes", "BIGINT", "bytes", _SILENT,
           "Least memory the card must offer for a trial to complete, with the KV pool as it is sized at the capacity."),
    Column("predicted_peak_stage", "VARCHAR", "", _SILENT,
           "Stage with the largest predicted peak of allocated bytes, of equal ones the first in the vocabulary's order."),
    Column("predicted_completes", "BOOLEAN", "", _SILENT, "A trial at this capacity is predicted to complete."),
    Column("predicted_failure_stage", "VARCHAR", "", f"{_SILENT}, or predicted to complete",
           "Stage in which memory is predicted to run out."),
)  # fmt: skip
_STANDING = (
    Column("frozen_at", "TIMESTAMP", "UTC", NEVER, "When its file was frozen, as the file says."),
    Column("is_prospective", "BOOLEAN", "", NEVER,
           "Every eligible trial of the configuration's first campaign carries a plan that names the SHA-256 of this "
           "prediction's file: it was there before the trials. False while there is no trial."),
    Column("is_latest", "BOOLEAN", "", NEVER, "Of this method's versions for the configuration the one frozen last."),
)  # fmt: skip

PREDICTIONS = View(
    name="predictions",
    split="predicted",
    grain="configuration, method and method version; measured or not",
    meaning="Simulated or estimated, not measured. Configurations without a trial are rows too, and so are those for "
    "which a method gave no answer, with its reason.",
    key=_KEY,
    columns=(
        MODEL_ID,
        WORKLOAD,
        _ASKED,
        _METHOD,
        _METHOD_VERSION,
        *_PREDICTED,
        Column("refusal", "VARCHAR", "", "the method gave an answer", "Why the method gave no answer."),
        *_STANDING,
        Column("capacity_bytes", "BIGINT", "bytes", _SILENT, "Capacity that the prediction is for."),
        Column("predicted_failure", "VARCHAR", "", f"{_SILENT}, or predicted to complete",
               "What is predicted to run out of memory."),
        Column("predicted_smallest_without_retries_bytes", "BIGINT", "bytes", _SILENT,
               "Least capacity at which a trial completes and the allocator never has to empty its cache."),
        Column("predicted_alloc_retries", "BIGINT", "count", _SILENT,
               "How often the allocator is predicted to empty its cache and try again."),
        *(Column(f"{end}_{name}", "BIGINT", "bytes", f"{_SILENT}", f"{word} {what} that the method holds possible.")
          for name, what in (("peak_reserved_bytes", "peak reserved"), ("peak_device_used_bytes", "peak device use"),
                             ("smallest_capacity_bytes", "smallest capacity"))
          for end, word in (("lowest", "Smallest"), ("highest", "Largest"))),
        DEVICE,
        Column("torch_version", "VARCHAR", "", NEVER, "major.minor of torch on the machine that is to measure."),
        Column("transformers_version", "VARCHAR", "", NEVER,
               "major.minor of transformers on the machine that is to measure."),
        Column("own_torch", "VARCHAR", "", "the method needs none", "torch that made the prediction."),
        Column("own_transformers", "VARCHAR", "", "the method needs none", "transformers that made the prediction."),
        Column("own_peft", "VARCHAR", "", "the method needs none", "peft that made the prediction."),
        Column("code_digest", "VARCHAR", "", "the method is a peer's", "SHA-256 over the package's files."),
        Column("gpu_profile", "VARCHAR", "", "the method uses none", "Name of the GPU profile."),
        Column("gpu_profile_digest", "VARCHAR", "", "the method uses none", "SHA-256 of the GPU profile's file."),
        Column("fitted_families", "VARCHAR", "", NEVER,
               "Model families whose measurements the method was fitted to, separated by commas; empty: none."),
        Column("predictions_digest", "VARCHAR", "", NEVER, "SHA-256 of the predictions file, which a plan may name."),
        _MODEL_FAMILY,
        SETTING_COLUMNS["algorithm"],
        SETTING_COLUMNS["adaptation"],
        ARCHIVE,
        CONFIGURATION_ID,
        SETTINGS_ID,
    ),
)  # fmt: skip

PREDICTION_ERRORS = View(
    name="prediction_errors",
    split="predicted",
    grain="configuration with an eligible trial, method and method version",
    meaning="Predictions beside the measurement of the configuration's first campaign. Errors are predicted / measured "
    "- 1. Judge the newest versions with is_latest, frozen ones as frozen with is_prospective.",
    key=_KEY,
    foreign_keys=(
        ForeignKey(_KEY, "predictions", _KEY),
        ForeignKey(("configuration_id",), "configurations", ("configuration_id",)),
    ),
    columns=(
        MODEL_ID,
        WORKLOAD,
        Column("capacity_mib", "BIGINT", "MiB", ON_CPU, SETTING_COLUMNS["capacity_mib"].meaning),
        _METHOD,
        _METHOD_VERSION,
        Column("measured_label", "VARCHAR", "", f"{ON_CPU}, or capacity below 4,096 MiB",
               "Label of the configuration; unresolved with fewer than three seeds."),
        _PREDICTED[0],
        Column("is_label_right", "BOOLEAN", "", "no measured or no predicted label, or the measured one is unresolved",
               "Predicted and measured label are equal."),
        Column("reserved_error", "DOUBLE", "", f"{_NO_MEASURED}; {_SILENT}",
               "Peak reserved, predicted / measured - 1."),
        Column("device_used_error", "DOUBLE", "", f"{_NO_MEASURED}; {_SILENT}",
               "Peak device used, predicted / measured - 1."),
        Column("allocated_error", "DOUBLE", "", f"{_NO_MEASURED}; {_SILENT}",
               "Peak allocated, predicted / measured - 1."),
        Column("margin_fraction", "DOUBLE", "",
               "no capacity, no smallest capacity, or a failure whose first failed request is not known in full",
               "How clear the measured outcome is. Completed: the smaller of |peak device used - limit| and |capacity - "
               "smallest capacity|, over the capacity; the smallest capacity is the bisected one, else this method's, "
               "else that of the newest dry run. Failed: requested minus free minus reclaimable bytes of the request "
               "that failed, over the capacity."),
        *_STANDING,
        Column("measured_single_run_state", "VARCHAR", "", f"{ON_CPU} or with an unknown peak unless it failed",
               "State of the eligible trial with the smallest seed."),
        *_PREDICTED[1:],
        Column("measured_peak_allocated_bytes", "BIGINT", "bytes", _NO_MEASURED, "Largest peak allocated of a trial."),
        Column("measured_peak_reserved_bytes", "BIGINT", "bytes", _NO_MEASURED, "Largest peak reserved of a trial."),
        Column("measured_peak_device_used_bytes", "BIGINT", "bytes", _NO_MEASURED,
               "Largest peak of device used of a trial."),
        Column("measured_peak_stage", "VARCHAR", "", _FAILED,
               "Stage with the largest measured peak of allocated bytes, by the rule of predicted_peak_stage."),
        Column("measured_failure_stage", "VARCHAR", "", "no trial failed, or the stage is unknown",
               "Stage in which the failed trial with the smallest seed ran out of memory."),
        Column("worst_stage_allocated_error", "DOUBLE", "", f"{_FAILED}, or no stage to compare",
               "The error of peak allocated that is largest in size over the stages that both have."),
        Column("worst_stage_reserved_error", "DOUBLE", "", f"{_FAILED}, or no stage to compare",
               "The error of peak reserved that is largest in size over the stages that both have."),
        Column("compared_stages", "BIGINT", "count", NEVER, "Stages whose peaks both have; 0 where a trial failed."),
        Column("measured_fails_at_bytes", "BIGINT", "bytes", _NOT_BISECTED,
               "Largest effective capacity below measured_completes_at_bytes at which the same settings failed."),
        Column("measured_completes_at_bytes", "BIGINT", "bytes", _NOT_BISECTED,
               "Smallest effective capacity at which the same settings completed with every trial."),
        Column("smallest_capacity_error", "DOUBLE", "", f"{_NOT_BISECTED}; {_SILENT}",
               "Smallest capacity, predicted / measured_completes_at_bytes - 1."),
        Column("eligible_trials", "BIGINT", "count", NEVER, "Eligible trials behind the measured values."),
        DEVICE,
        _MODEL_FAMILY,
        SETTING_COLUMNS["algorithm"],
        SETTING_COLUMNS["adaptation"],
        Column("predictions_digest", "VARCHAR", "", NEVER, "SHA-256 of the predictions file."),
        CONFIGURATION_ID,
        SETTINGS_ID,
    ),
)  # fmt: skip
