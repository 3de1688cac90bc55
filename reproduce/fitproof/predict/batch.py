"""Many predictions: each program is run once, whatever the number of capacities, spread over the cores."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from ..errors import EnvironmentLacks
from ..schema.settings import Settings
from . import cache
from .answer import Prediction

Refusal = str
"""Why the dry run cannot follow a configuration, in one line."""


def predict_all(
    settings: Sequence[Settings],
    gpu: str = "h200",
    *,
    use_cache: bool = True,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[Settings, Prediction | Refusal]:
    """A prediction for each, or why there is none; in the order given, each once. `progress(done, total)` counts
    configurations. `workers` None: one a core. Raises EnvironmentLacks without torch, transformers and peft.
    """
    cache.versions()
    found: dict[Settings, Prediction | Refusal | None] = {
        s: cache.read(s, gpu) if use_cache else None for s in settings
    }
    programs: dict[tuple, list[Settings]] = {}
    for s, known in found.items():
        if known is None:
            programs.setdefault(_program(s), []).append(s)
    done = sum(known is not None for known in found.values())
    for group, answers in _each(list(programs.values()), gpu, workers or _cores()):
        for s, answer in zip(group, answers, strict=True):
            found[s] = answer
            if use_cache and isinstance(answer, Prediction):
                cache.write(s, gpu, answer)
        done += len(group)
        if progress is not None:
            progress(done, len(found))
    return found


def _program(s: Settings) -> tuple:
    """Equal for settings that run the same program. With kv_reservation the pool follows the capacity."""
    without = () if s.kv_reservation is not None else ("capacity_mib", "capacity_source")
    return tuple((name, value) for name, value in s.identity().items() if name not in without)


def _each(groups: list[list[Settings]], gpu: str, workers: int):
    """(group, its answers) as they come. One group needs no second process."""
    if len(groups) <= 1 or workers == 1:
        for group in groups:
            yield group, _answers(group, gpu)
        return
    context = multiprocessing.get_context("forkserver")  # imports the stack once, and never forks this process
    context.set_forkserver_preload(["fitproof.predict.prediction"])
    with ProcessPoolExecutor(min(workers, len(groups)), mp_context=context, initializer=_one_thread) as pool:
        waiting = {pool.submit(_answers, group, gpu): group for group in groups}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _answers(group: list[Settings], gpu: str) -> list[Prediction | Refusal]:
    from .prediction import at_capacity, capacity_bytes, trace

    try:
        of = trace(group[0], gpu)
    except EnvironmentLacks as error:
        return [f"{error.subject}: {error.found}"] * len(group)
    except RuntimeError as error:  # an operation that torch cannot do without a device
        return [" ".join(f"{type(error).__name__}: {error}".split())[:300]] * len(group)
    return [at_capacity(of, capacity_bytes(s, gpu)) for s in group]


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
