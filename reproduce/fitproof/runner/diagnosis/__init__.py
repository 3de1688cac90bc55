"""What ended a run: evidence from the child, the kernel and the logs, turned into one failure class.

`diagnose_text` reads any log of a post-training stack; `decode_log` makes text of a log's bytes; `diagnose_attempt`
weighs what the supervisor knows first. Only the class `device_memory` makes a memory failure.
"""

from .attempt import diagnose_attempt
from .text import Diagnosis, decode_log, diagnose_text

__all__ = ["Diagnosis", "decode_log", "diagnose_attempt", "diagnose_text"]
