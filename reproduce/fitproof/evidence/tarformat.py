"""The one way a regular file stands in a pax tar, so that reading can demand exactly the bytes that packing writes.

The bytes are those of Python's tarfile with PAX_FORMAT for mode 0644, mtime 0, uid and gid 0 and no names; a test holds
the two together. A name that is longer than 100 bytes or not ASCII takes an extended header with the one record `path`.
"""

BLOCK = 512
RECORD = 20 * BLOCK  # a tar's length is a multiple of this
ZERO_BLOCK = bytes(BLOCK)
PAX_NAME = b"././@PaxHeader"

REGULAR, PAX = b"0", b"x"
TYPE_NAMES = {
    b"\0": "an old-style regular file",
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a directory",
    b"6": "a fifo",
    b"7": "a contiguous file",
    b"g": "a global extended header",
    b"x": "an extended header",
    b"L": "a GNU long name",
    b"K": "a GNU long link name",
    b"S": "a GNU sparse file",
}
_FIELDS = (
    ("name", 0, 100), ("mode", 100, 108), ("uid", 108, 116), ("gid", 116, 124), ("size", 124, 136),
    ("mtime", 136, 148), ("checksum", 148, 156), ("type", 156, 157), ("link name", 157, 257), ("magic", 257, 265),
    ("user name", 265, 297), ("group name", 297, 329), ("device major", 329, 337), ("device minor", 337, 345),
    ("prefix", 345, 500), ("padding", 500, 512),
)  # fmt: skip
_MODES = {REGULAR: b"0000644\0", PAX: b"0000000\0"}
_NOBODY = b"0000000\0" * 2
_AFTER_TYPE = bytes(100) + b"ustar\00000" + bytes(247)
_TAILS = {kind: kind + _AFTER_TYPE for kind in (REGULAR, PAX)}
_TAIL_SUMS = {kind: sum(tail) + 8 * 32 for kind, tail in _TAILS.items()}  # the checksum field itself counts as spaces


def padding(size: int) -> int:
    """Zero bytes after `size` bytes of data up to the next block."""
    return -size % BLOCK


def _block(name: bytes, size: int, kind: bytes) -> bytes:
    head = name[:100].ljust(100, b"\0") + _MODES[kind] + _NOBODY + b"%011o\0" % size + b"00000000000\0"
    return head + b"%06o\0 " % (sum(head) + _TAIL_SUMS[kind]) + _TAILS[kind]


def pax_record(name: str) -> bytes:
    """`LENGTH path=NAME` with LENGTH counting itself."""
    body = b" path=" + name.encode("utf-8") + b"\n"
    length = len(body)
    while length != len(body) + len(str(length)):
        length = len(body) + len(str(length))
    return str(length).encode() + body


def header(name: str, size: int) -> bytes:
    """The header block or blocks of a regular file of `size` bytes (below 8 GiB)."""
    ascii_name = name.encode("ascii", "replace")
    block = _block(ascii_name, size, REGULAR)
    if name.isascii() and len(ascii_name) <= 100:
        return block
    record = pax_record(name)
    return _block(PAX_NAME, len(record), PAX) + record + bytes(padding(len(record))) + block


def stored_bytes(name: str, size: int) -> int:
    """Bytes that a member takes in the tar, header and padding included."""
    return len(header(name, size)) + size + padding(size)


def end_bytes(written: int) -> int:
    """Zero bytes that end a tar of `written` bytes: two blocks, then up to a full record."""
    return 2 * BLOCK + -(written + 2 * BLOCK) % RECORD


def describe_block(found: bytes, expected: bytes) -> tuple[str, str]:
    """(found, expected) of the first field, type first, in which a header block is not the canonical one."""
    kind = found[156:157]
    if kind != expected[156:157]:
        return TYPE_NAMES.get(kind, f"type {kind!r}"), "a regular file"
    for field, start, end in _FIELDS:
        if field != "checksum" and found[start:end] != expected[start:end]:
            return f"{field} {_shown(found[start:end])}", f"{field} {_shown(expected[start:end])}"
    return f"checksum {_shown(found[148:156])}", f"checksum {_shown(expected[148:156])}"


def _shown(field: bytes) -> str:
    return repr(field.rstrip(b"\0").decode("utf-8", "backslashreplace"))
