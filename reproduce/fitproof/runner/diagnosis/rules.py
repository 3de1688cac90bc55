"""The wordings that decide, each with the reason why it means what we say it means.

Rules are tried in order; the first that matches a line wins, so that a narrow reading stands before a wide one.
"""

import re
from dataclasses import dataclass

MEMORY_CLASSES = ("device_memory", "host_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`failure_class`: one of records.FAILURE_CLASSES; `reason`: why these words mean it.

    `is_cause`: names what went wrong; otherwise it tells of a death without its reason and counts only where no cause
    is found. `may_pin`: pinned host memory is reported in the same words, so the frames around the line decide.
    `any_level`: an event whatever severity the line gives itself (kernels and schedulers log deaths as information).
    """

    pattern: re.Pattern[str]
    failure_class: str
    reason: str
    is_cause: bool = True
    may_pin: bool = False
    any_level: bool = False


def _rule(failure_class: str, reason: str, *patterns: str, **more: bool) -> Rule:
    return Rule(pattern=re.compile("|".join(patterns), re.I), failure_class=failure_class, reason=reason, **more)


_ACCELERATOR = r"(?:cuda|hip|rocm|npu|xpu|musa|mlu|hpu|gpu|mps backend|mps|cann|sycl|ascend|gaudi|vram|hbm)"
_DEVICE_CALL = (
    r"(?:cuMemCreate|cuMemAlloc\w*|cuMemMap|cudaMalloc\w*|hipMalloc\w*|hipMemCreate|aclrtMalloc\w*"
    r"|halMemAlloc|rtMalloc)"
)
_DEVICE_BUFFER = r"(?:CUDA|ROCm|HIP|Vulkan|SYCL)"

# Words of memory that mean something else.
_OTHER_MEANINGS = (
    _rule("device_fault", "a corrupted size: no device of any capacity could serve it", r"more than 1EB memory"),
    _rule(
        "unknown",
        "a kernel's block does not fit an SM or core; the device's memory is not full",
        r"out of resources?:? ?(?:shared memory|tensor memory|registers|threads)",
        r"OutOfResources|too many resources requested for launch|memory space (?:vmem|smem|sflag)",
    ),
    _rule(
        "unknown",
        "a pool of configured size ran out, not the memory it lies in",
        r"due to (?:the )?lack of CPU swap space|no more teams available|available in AlignedAllocator",
        r"out of workspace memory",
    ),
)

_HOST_WATCHERS = (
    _rule(
        "host_memory",
        "the kernel's OOM killer",
        r"\boom[-_ ]kill(?:er|ed)? event|detected \d+ oom[-_ ]kill|invoked oom-killer|oom-kill:constraint",
        r"result 'oom-kill'|killed by the OOM killer|out of memory: kill(?:ed)? process|oom_reaper: reaped",
        r"memory cgroup out of memory|cgroup out-of-memory handler|OOM Killed\b|\boom_kill[\"']?[\s:=]+[1-9]",
        any_level=True,
    ),
    _rule("host_memory", "the container hit its memory limit", r"\bOOMKilled\b", any_level=True),
    _rule("host_memory", "the node evicted the pod for its memory", r"low on resource: memory", any_level=True),
    _rule(
        "host_memory",
        "an OOM killer in user space",
        r"systemd-oomd|killed /\S+ due to memory (?:pressure|used)|earlyoom|low memory! at or below",
        any_level=True,
    ),
    _rule(
        "host_memory",
        "the scheduler's memory limit",
        r"srun: error: .{0,120}out of memory|exceeded (?:job|step|virtual|cgroup)? ?memory limit|TERM_MEMLIMIT",
        r"(?-i:\bOUT_OF_ME\+|\bOUT_OF_MEMORY +\d+:\d+|State[=: ]+OUT_OF_MEMORY)",
        r"(?:mem|vmem|pvmem) \d+\w* exceeded limit",
        any_level=True,
    ),
    _rule(
        "host_memory",
        "Ray's memory monitor and object store watch host RAM",
        r"node running low on memory|NODE_OUT_OF_MEMORY|RayOutOfMemoryError|ray\.exceptions\.OutOfMemoryError",
        r"ObjectStoreFullError|object store is full",
        r"[1-9]\d* workers? \(tasks / actors\) killed due to memory pressure",
        any_level=True,
    ),
)

_HOST_ALLOCATORS = (
    _rule(
        "host_memory",
        "page-locked memory is the host's, whoever reports it",
        r"cudaHostAlloc|cudaMallocHost|cudaHostRegister|hipHostMalloc|cuMemHostAlloc|CUDA host alloc",
        r"pinned (?:host )?memory of size|bytes on host:|HOST_ALLOCATION_FAILED|OUT_OF_HOST_MEMORY",
        r"(?:failed|unable|could not|cannot) to? ?(?:pin|allocate pinned)",
    ),
    _rule(
        "device_memory",
        "an allocator of the device under a name that sounds like the host's",
        r"out of memory error on GPU|rmm.{0,200}(?:out[ _]of[ _]memory|MemoryAllocation)|out_of_memory: (?:CUDA|RMM)",
    ),
    _rule(
        "host_memory",
        "TensorFlow's CPU allocator",
        r"OOM when allocating tensor.{0,400}(?:device:CPU|allocator \w*cpu)|by allocator \w*cpu",
    ),
    _rule(
        "host_memory",
        "an allocator of the host",
        r"DefaultCPUAllocator|not enough memory: you tried to allocate|std::bad_alloc",
        r"ArrayMemoryError|ArrowMemoryError",
        r"Unable to allocate .{1,40} for an array|malloc of size \d+ failed|memory allocation of \d+ bytes failed",
        r"Java heap space|heap out of memory|GC overhead limit|virtual memory exhausted|fatal: out of memory",
        r"(?:os|errno:?) (?:error )?12\b|\bENOMEM\b|cannot allocate memory|can't allocate memory|\(ENOMEM\)",
        r"(?:CPU|host) buffer .{0,40}failed|failed to allocate (?:CPU|host)|Out of Memory Error: |memory budget",
    ),
    _rule("host_memory", "Python's own MemoryError", r"(?:^|[\s.:])MemoryError\b"),
    _rule(
        "host_memory",
        "/dev/shm lives in host memory",
        r"bus error\b.{0,200}(?:shared memory|shm)|(?:out of|insufficient|not enough|too little) shared memory",
        r"raise your shared memory limit|posix_fallocate failed ?: no space left",
        r"(?:/dev/shm|/torch_\d|psm_|shared memory segment).{0,200}no space left",
        r"no space left on device.{0,200}(?:/dev/shm|/psm_|/torch_\d)",
    ),
)

_DEVICE_MEMORY = (
    _rule(
        "device_memory",
        "the driver refused an allocation",
        r"cuda (?:driver |runtime )?error\b.{0,160}out of memory|cuda runtime \(out of memory",
        r"hip error\b.{0,80}out of memory|cuda failure.{0,12}out of memory|cu(?:result|da) error: ?2\b",
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory|hipErrorMemoryAllocation",
        r"triton error.{0,20}out of memory",
        may_pin=True,
    ),
    _rule(
        "device_memory",
        "the framework's allocator",
        rf"\b{_ACCELERATOR}\b[ -]?(?:\d+ )?(?:is |ran |has run |memory )*"
        r"(?:out of memory|oom\b(?!s?[\"']?\s*[=:]\s*\d))",
        r"torch(?:\.cuda)?\.OutOfMemoryError|c10::OutOfMemoryError|cupy\S*OutOfMemoryError",
        r"would exceed allowed memory",
    ),
    _rule(
        "device_memory",
        "Level Zero, SYCL, HSA, Gaudi and Metal forms",
        r"OUT_OF_DEVICE_MEMORY|outOfDeviceMemory|out of device memory|MODULE:PT_DEVMEM",
        r"HSA_STATUS_ERROR_OUT_OF_RESOURCES|\[METAL\].{0,120}insufficient memory",
        r"(?:PI|UR|CL)_(?:RESULT_)?(?:ERROR_)?OUT_OF_RESOURCES|kIOGPU\w*OutOfMemory",
    ),
    _rule(
        "device_memory",
        "a library could not get its workspace or handle",
        r"CU(?:BLAS|DNN|SOLVER|SPARSE|RAND|FFT)\w*ALLOC(?:ATION)?_FAILED|DEVICE_ALLOCATION_FAILED",
        r"HIPBLAS_STATUS_ALLOC_FAILED|rocblas_status_memory_error|miopenStatusAllocFailed",
        r"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES",
    ),
    _rule(
        "device_memory",
        "a handle that cannot be created is the sign of a nearly full device",
        r"CU(?:BLAS|DNN)_STATUS_NOT_INITIALIZED",
    ),
    _rule(
        "device_memory",
        "a device allocation call failed",
        rf"failed to CUDA (?:calloc|malloc)|{_DEVICE_CALL}\b.{{0,80}}(?:fail|error|out of memory|207001)",
        rf"EL0004|alloc(?:ate)? device memory failed|(?:unable|failed) to allocate {_DEVICE_BUFFER}",
        r"allocate_physical_memory_to_heap failed",
    ),
    _rule(
        "device_memory",
        "the serving engine found no room for its KV cache",
        r"no available memory for the cache blocks|free memory on device .{0,80}less than desired",
        r"larger than the available KV cache memory|(?:prefill|decode) out of memory",
        r"larger than the maximum number of tokens that can be stored in (?:the )?KV cache",
        r"not enough memory\b.{0,80}mem-fraction-static|out of memory\b.{0,60}(?:max_total_tokens|mem-fraction)",
        r"(?:not enough|insufficient) (?:\w+ )?memory (?:to allocate|for) (?:the )?KV",
        r"(?:not enough|insufficient) (?:GPU )?KV cache (?:memory|space)",
    ),
    _rule(
        "device_memory",
        "the program measured too little device memory",
        r"(?:no(?:t)?|in)[ -]?(?:enough|sufficient) (?:free )?(?:gpu|device|vram|cuda|hbm|npu) (?:memory|ram)",
        r"ran out of (?:gpu|device|vram|cuda|hbm)|gpu memory .{0,40}could not be allocated|gpu memory is not enough",
        r"dispatched on the CPU or the disk|no executable batch size found|exceeded hbm capacity|memory space hbm",
    ),
    _rule(
        "device_memory",
        "XLA and TensorFlow forms",
        r"RESOURCE[_ ]EXHAUSTED.{0,200}(?:out of memory|oom\b|allocat|attempting to reserve)",
        r"OOM when allocating tensor",
        r"ResourceExhaustedError.{0,200}(?:oom|allocat|out of memory)|failed to allocate .{0,60}from device",
        r"(?:Xla|Jax)RuntimeError.{0,120}failed to allocate",
    ),
    _rule(
        "device_memory",
        "bitsandbytes checks its managed allocations with these words",
        r"error out of memory at line \d+ in file",
    ),
    _rule(
        "device_memory",
        "Ray wraps the device error of torch in this; a cause printed below it decides first",
        r"RayTaskError\(OutOfMemoryError\)",
        is_cause=False,
    ),
)

_DEVICE_FAULTS = (
    _rule(
        "device_fault",
        "the device or its driver failed",
        r"illegal memory access|cudaErrorIllegalAddress|illegal (?:address|instruction)|misaligned address",
        r"unspecified launch failure|uncorrectable (?:ECC|NVLink)|ECC error|fallen off the bus|\bXid \(|GPU is lost",
        r"busy or unavailable|memory access fault by GPU|DEVICE_LOST|CUDA error: unknown error|CUDA unknown error",
        r"cuda failure \d* ?'unknown error'|HSA_STATUS_ERROR|aicore (?:exception|error|execution)",
        r"(?:aivec|vector core|aicore) error|hardware error|CUDA error: an internal",
        r"launch timed out and was terminated",
    ),
    _rule("unknown", "the program's own indices; neither memory nor device", r"device-side assert triggered"),
)

_SURROUNDINGS = (
    _rule(
        "dependency",
        "installed software does not fit",
        r"ModuleNotFoundError|ImportError|No module named|cannot import name|undefined symbol|failed to import",
        r"cannot open shared object file|no kernel image|invalid device function|cannot find -l|ABI mismatch",
        r"error building extension|DistributionNotFound|VersionConflict|PackageNotFoundError|ninja is required",
        r"driver version is insufficient|driver on your system is too old|GLIBC(?:XX)?_[\d.]+' not found",
        r"unsupported toolchain|unsupported gpu architecture|not compiled with CUDA|setup failed|only supports Ampere",
        r"requires .{1,60} but (?:you|found)|does not recognize this architecture|incompatible with installed",
    ),
    _rule(
        "harness",
        "storage",
        r"no space left on device|disk quota exceeded|read-only file system|OutOfDiskError|input/output error",
        r"stale file handle|unexpected pos \d+ vs|low on resource: ephemeral-storage",
    ),
    _rule(
        "timeout",
        "the scheduler's time limit",
        r"DUE TO TIME LIMIT|TERM_RUNLIMIT|walltime .{0,30}exceeded|exceeded limit .{0,100}walltime",
        any_level=True,
    ),
    _rule(
        "harness",
        "stopped from outside",
        r"DUE TO PREEMPTION|\bPREEMPTED\b|NODE_FAIL|DUE TO NODE FAILURE|spot instance interruption",
        r"\bKeyboardInterrupt\b|SIGTERM (?:received|caught)|received (?:signal )?SIGTERM|received signal 15",
        r"got signal: (?:1|2|15)\b|\b(?:1|2|15) death signal|shutdown requested",
        any_level=True,
    ),
    _rule(
        "harness",
        "the surroundings of the run",
        r"address already in use|EADDRINUSE|too many open files|resource temporarily unavailable|permission denied",
        r"\b50\d (?:server error|bad gateway|service)|gateway time-?out|name or service not known",
        r"temporary failure in name resolution|No CUDA GPUs are available",
    ),
    _rule(
        "data",
        "what was read is missing or malformed",
        r"JSONDecodeError|UnicodeDecodeError|DatasetGenerationError|DataFilesNotFoundError|EmptyDatasetError",
        r"ArrowInvalid|FileNotFoundError|RepositoryNotFoundError|EntryNotFoundError|could not convert string to float",
    ),
)

_CONSEQUENCES = (
    _rule(
        "timeout",
        "waited in vain, usually for a process that had died",
        r"collective operation timeout|\btime[sd] out\b|\bTimeoutError\b|GetTimeoutError|TimeoutExpired",
        is_cause=False,
    ),
    _rule(
        "unknown",
        "SIGKILL does not say who sent it",
        r"signal 9\b|SIGKILL|exitcode ?: -9|return code = -9|killed by signal: killed|^Killed$|\bKilled {2,}\S",
        r"exit code 137|abruptly died|terminated abruptly",
        is_cause=False,
    ),
    _rule(
        "unknown",
        "a native crash without a stated reason",
        r"segmentation fault|SIGSEGV|signal 11\b|exitcode ?: -11|bus error|SIGBUS|Aborted \(core dumped\)|SIGABRT",
        is_cause=False,
    ),
    _rule(
        "harness",
        "a peer or service went away",
        r"connection (?:reset|refused|closed|aborted)|broken pipe|ConnectionError|closing signal SIGTERM|EOFError",
        r"unhandled (?:cuda|system) error|NCCL communicat\w+ (?:was )?aborted|DistBackendError",
        is_cause=False,
    ),
    _rule(
        "unknown",
        "a wrapper around a death that happened elsewhere",
        r"Engine core initialization failed|EngineCore (?:failed|encountered|hit an exception)|EngineDeadError",
        r"ChildFailedError|ActorDiedError|RayActorError|actor died|worker died|WorkerCrashedError|BrokenProcessPool",
        r"\bAborted\b|fatal signal from worker|exited unexpectedly|terminate called|Fatal Python error|child failed",
        r"Unhandled exception|return code = [1-9]|Worker unexpectedly exits|CalledProcessError",
        is_cause=False,
    ),
)

RULES: tuple[Rule, ...] = (
    *_OTHER_MEANINGS,
    *_HOST_WATCHERS,
    *_HOST_ALLOCATORS,
    *_DEVICE_MEMORY,
    *_DEVICE_FAULTS,
    *_SURROUNDINGS,
    *_CONSEQUENCES,
)
