"""The text of the card between its generated tables. No number that could go stale stands here."""

QUESTION = """\
# fitproof

**Will this LLM post-training configuration fit in the GPU memory I have, and how do you know?**

Each answer here is a measured trial: a fresh process that builds the models, rolls out, scores and updates, while a
second process watches the device. The raw record of every attempt is published, failures included, and every table
can be rebuilt from it on a laptop: no GPU, no model weights, no account."""

LOAD = """\
## Look at it in three lines

```python
from datasets import load_dataset

repo = "/absolute/path/to/this/clone"  # or the id of this card on the Hub
print(load_dataset(repo, "configurations", split="measured").to_pandas())
```

From a clone, without `datasets`: `fitproof show configurations` in the terminal, or in Python
`fitproof.load("configurations")`, a DuckDB relation with `.df()`, `.pl()` and `.arrow()`."""

ACCURACY = """\
`dry_run` runs the trial program itself on tensors without memory and replays its allocations through a model of
PyTorch's caching allocator: `fitproof predict`, no GPU. Each prediction stands beside its measurement in
`prediction_errors`. *Newest version* judges for every configuration the version frozen last, whenever that was; *frozen
before its trials* judges only predictions whose file is named by the plan that the trials carry, as they were frozen. A
label is *clear* where the measured outcome lies more than 1 % of the capacity from another one (`margin_fraction`).
Errors are |predicted / measured - 1| of configurations all of whose trials completed; *peak before the update*: most
bytes were allocated in a rollout, a scoring stage or a weight sync. Smallest capacity: where trials bisected it within
2 %."""

REPRODUCE = """\
## Reproduce it in four commands

Needs Python 3.11 or newer, git and make. No GPU, no PyTorch.

```sh
git clone REPOSITORY fitproof && cd fitproof  # REPOSITORY: the address of this page
sha256sum --check --quiet MANIFEST.sha256  # the files are the published ones
make reproduce                             # verify every archive, rebuild every view, compare row by row
make test                                  # the tests, on the CPU (this one installs PyTorch)
```

`make reproduce` exits 1 and names the file if one byte of an archive, a view, `release.json` or `MANIFEST.sha256` was
changed. Archives are read as streams; no archive member is written to disk. The second path is separate code:
`verification/` recomputes the headline numbers from the views and from the archives, and imports nothing from the
pipeline."""

MEASURE = """\
## Measure your own card

```sh
pip install -e '.[gpu]'
fitproof doctor                              # what this machine can measure, and what is missing
fitproof run quick --out runs                # a small frozen panel; killed at any time, the same command goes on
fitproof pack runs -o releases/DATE_DEVICE_quick.tar.zst
```

The record holds no host name, user name, device UUID or path. [CONTRIBUTING.md](CONTRIBUTING.md) says how to send
it. A run of any other stack that died can be read too: `fitproof diagnose LOGFILE --json` gives the failure class,
the stage and the line that decided."""

READING = """\
## How to read a row

**Four different numbers**, and no column says just "memory": *allocated* (bytes of live tensors), *reserved* (bytes
the caching allocator took from the driver), *process used* and *device used* (what the driver reports). A trial's
peak device use is the larger of the largest sample and peak reserved plus the process overhead, so that a spike
between two samples does not escape.

**Labels** are over three distinct eligible seeds of one configuration; the operating limit is the effective capacity
minus 2,048 MiB, inclusive. Below 4,096 MiB of capacity, and on a CPU, there is no label, only `single_run_state`.

| label | meaning |
| --- | --- |
| `within_margin` | all three complete, every peak at or below the limit |
| `above_margin` | all three complete, at least one peak above the limit |
| `memory_failure` | three eligible seeds, at least one a diagnosed device-memory failure |
| `unresolved` | fewer than three eligible seeds; what is known stands in columns of its own |

**`capacity_source`** is `device` (a real card) or `emulated`: a second process held plain device memory until
exactly the wanted capacity was left, so the trial met a real out-of-memory error of the driver at that capacity. An
emulated row names the physical card. It is not a measurement of the smaller card.

**An attempt is not a trial.** An attempt that failed for a reason other than device memory stays in `attempts` with
its reason and is never counted as a trial. Memory failures are never retried. A failed run's observed peak is not
its demand.

How it is measured: [docs/method.md](docs/method.md). Every column: [views/README.md](views/README.md)."""

NOT_CLAIMED = """\
## What is not claimed

- No model quality, convergence or reward: weights are random unless a row says `weights=pretrained`, and steps are
  few.
- No ranking of throughput between cards or stacks.
- Nothing about hardware that no row names. Emulated capacities stand for memory, not for the smaller card's speed,
  kernels or driver.
- No probability of failure. Three seeds and a fixed margin are a convention of the literature, not a guarantee.
- Nothing about other training stacks: their allocations differ. Nothing about several GPUs or machines.

## Limits

- Configurations were chosen, not sampled: shares of labels say nothing about configurations at large.
- Rows of one configuration differ only in seed, and shapes do not depend on the seed: three seeds are repeats, not
  independent cases.
- Sequences are padded to their limits and response lengths are forced: the worst case of a setting, not its average.
- Peaks depend on the versions in `devices`; `allocator`, attention and kernels change them."""

RIGHTS = """\
## Licence and citation

Code and measurements: MIT. No model weights, tokenizers or data sets of third parties are redistributed; see
[RIGHTS.md](RIGHTS.md). Cite with [CITATION.cff](CITATION.cff) and the release tag in [release.json](release.json).
What changed between releases: [CHANGELOG.md](CHANGELOG.md)."""
