"""What a published view is made of. The one source for casts, card, release.json, dataset_info and checks."""

from dataclasses import dataclass

# DuckDB type -> `datasets` feature dtype
FEATURE_DTYPES = {
    "VARCHAR": "string",
    "BIGINT": "int64",
    "INTEGER": "int32",
    "DOUBLE": "float64",
    "BOOLEAN": "bool",
    "TIMESTAMP": "timestamp[us]",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: DuckDB type, unit ('bytes', 'MiB', 'seconds', 'count' or ''), null rule, one sentence of meaning.

    `null` says when the value is null ("never" where it may not be).
    """

    name: str
    type: str
    unit: str
    null: str
    meaning: str

    def __post_init__(self) -> None:
        if self.type not in FEATURE_DTYPES:
            raise ValueError(f"column {self.name}: type {self.type!r} is not one of {', '.join(FEATURE_DTYPES)}")
        if not self.null or not self.meaning.strip():
            raise ValueError(f"column {self.name}: say when it is null and what it means")

    @property
    def is_nullable(self) -> bool:
        return self.null != "never"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """`columns` of this view name a row of `view` by its `references`."""

    columns: tuple[str, ...]
    view: str
    references: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One Parquet file (or one per archive) and one config of the card. `key` is unique and is the row order."""

    name: str
    split: str
    grain: str
    """What one row is."""
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_per_archive: bool = False
    """True: views/<name>/<archive>.parquet, one file per archive, instead of views/<name>.parquet."""

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        repeated = sorted({n for n in names if names.count(n) > 1})
        unknown = [n for n in self.key if n not in names]
        if repeated or unknown:
            raise ValueError(f"view {self.name}: repeated columns {repeated}, key columns that do not exist {unknown}")

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)
