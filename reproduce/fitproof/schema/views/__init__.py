"""Every published view, in card order. One module per group; `VIEWS` is what everything else reads."""

from ..view import View
from .configurations import CONFIGURATIONS
from .ledger import ATTEMPTS, DEVICES, PANEL_SLOTS
from .memory import ITERATION_COSTS, MEMORY_SAMPLES, STAGE_PEAKS
from .predictions import PREDICTION_ERRORS, PREDICTIONS
from .trials import FAILURES, TRIALS
from .workloads import OPD_WORKLOADS

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        CONFIGURATIONS,
        TRIALS,
        ATTEMPTS,
        PANEL_SLOTS,
        STAGE_PEAKS,
        MEMORY_SAMPLES,
        ITERATION_COSTS,
        FAILURES,
        PREDICTIONS,
        PREDICTION_ERRORS,
        OPD_WORKLOADS,
        DEVICES,
    )
}
