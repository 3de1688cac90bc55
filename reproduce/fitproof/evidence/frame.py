"""The outside of a Zstandard file: exactly one frame, known size, small window. Nothing is decompressed here.

The decoder alone would forgive what follows the frame and, read as a stream, a frame that is cut short. Walking the
block headers (3 bytes each, RFC 8878 section 3.1.1.2) settles both for the price of one small read a block.
"""

import os

import zstandard

from fitproof.errors import EvidenceError
from fitproof.evidence.files import REFETCH_HINT

MAGIC = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_BYTES = 1 << 24  # level 19 uses 8 MiB; the window is what a decoder must hold in memory
_RLE, _RESERVED = 1, 3


def check_frame(fd: int, size: int, subject: str) -> int | None:
    """Check that the file (`size` bytes) is one whole frame with a content checksum and a window within bounds.

    Returns the content bytes that the frame declares, or None if it does not say. Raises EvidenceError.
    """

    def bad(found: str, expected: str) -> EvidenceError:
        return EvidenceError(subject, found=found, expected=expected, hint=REFETCH_HINT)

    head = os.pread(fd, 18, 0)  # the longest frame header
    if head[:4] != MAGIC:
        raise bad(f"first bytes {head[:4].hex() or '(none)'}", f"a Zstandard frame, which begins with {MAGIC.hex()}")
    try:
        parameters = zstandard.get_frame_parameters(head)
        at = zstandard.frame_header_size(head)
    except zstandard.ZstdError as error:
        raise bad(f"a frame header that does not parse ({error})", "a Zstandard frame") from None
    if not parameters.has_checksum or parameters.dict_id:
        raise bad("a frame without content checksum, or with a dictionary", "a content checksum and no dictionary")
    if parameters.window_size > MAX_WINDOW_BYTES:
        raise bad(f"a window of {parameters.window_size} bytes", f"at most {MAX_WINDOW_BYTES}")
    last = False
    while not last:
        block = os.pread(fd, 3, at)
        if len(block) < 3:
            raise bad(f"a file that ends at {size} bytes, inside the frame", "a whole frame (truncated?)")
        word = int.from_bytes(block, "little")
        last, kind = bool(word & 1), word >> 1 & 3
        if kind == _RESERVED:
            raise bad(f"a block of reserved type at byte {at}", "a Zstandard frame")
        at += 3 + (1 if kind == _RLE else word >> 3)
    at += 4  # content checksum
    if at != size:
        what = "truncated" if size < at else "trailing data"
        raise bad(f"{size} bytes ({what})", f"one frame of {at} bytes")
    declared = parameters.content_size
    return None if declared == zstandard.CONTENTSIZE_UNKNOWN else declared
