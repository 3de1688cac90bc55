"""views/croissant.json: the dataset in ML Croissant 1.0 (http://mlcommons.org/croissant/1.0), from the schema.

Only views with rows are described. File digests come from the files; there is no clock and no address in it: contentUrl
is relative to the file itself, so that it serves a clone as well as a copy on the Hub.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..schema.view import Column, View
from .coverage import read_views
from .load import view_files

CROISSANT = "views/croissant.json"
DATA_TYPES = {
    "VARCHAR": "sc:Text",
    "BIGINT": "sc:Integer",
    "INTEGER": "sc:Integer",
    "DOUBLE": "sc:Float",
    "BOOLEAN": "sc:Boolean",
    "TIMESTAMP": "sc:DateTime",
}
# The context of the specification, verbatim: readers warn about any other.
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "equivalentProperty": "cr:equivalentProperty",
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(root: Path, views: Sequence[View]) -> str:
    """JSON text for the views with rows under `root`. Same files, same text."""
    connection, rows = read_views(root, [view.name for view in views])
    connection.close()
    declared = [view for view in views if view.name in rows]
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": "fitproof",
        "description": "Measured GPU memory of LLM post-training trials, failures included, rebuilt from raw evidence.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "citeAs": "the fitproof authors, fitproof, the release tag in release.json",
        "license": "https://spdx.org/licenses/MIT.html",
        "creator": {"@type": "sc:Organization", "name": "the fitproof authors"},
        "version": __version__,
        "distribution": [part for view in declared for part in _distribution(root, view)],
        "recordSet": [_record_set(view, rows.keys()) for view in declared],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def write_croissant(root: Path, views: Sequence[View]) -> str:
    """Write views/croissant.json; returns its path relative to `root`."""
    path = root / CROISSANT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(croissant(root, views).encode("utf-8"))
    return CROISSANT


def check_croissant(root: Path, views: Sequence[View]) -> list[str]:
    """[CROISSANT] when the file is absent or differs from what `write_croissant` would write, else []."""
    path = root / CROISSANT
    is_current = path.is_file() and path.read_bytes() == croissant(root, views).encode("utf-8")
    return [] if is_current else [CROISSANT]


def _distribution(root: Path, view: View) -> list[dict]:
    files = [_file_object(root, path) for path in view_files(root, view.name)]
    if not view.is_per_archive:
        return files
    return [
        *files,
        {
            "@type": "cr:FileSet",
            "@id": f"{view.name}-files",
            "encodingFormat": "application/x-parquet",
            "includes": f"{view.name}/*.parquet",
        },
    ]


def _file_object(root: Path, path: Path) -> dict:
    data = path.read_bytes()
    name = path.relative_to(root / "views").as_posix()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{len(data)} B",
        "encodingFormat": "application/x-parquet",
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _record_set(view: View, existing: Sequence[str]) -> dict:
    references = {
        here: (key.view, there)
        for key in view.foreign_keys
        if key.view in existing and len(key.columns) == 1
        for here, there in zip(key.columns, key.references, strict=True)
    }
    fields = [_field(view, column) for column in view.columns]
    for field, column in zip(fields, view.columns, strict=True):
        if column.name in references:
            target, there = references[column.name]
            field["references"] = {"field": {"@id": f"{target}/{there}"}}
    return {
        "@type": "cr:RecordSet",
        "@id": view.name,
        "name": view.name,
        "description": f"{view.meaning} One row per {view.grain}.",
        "key": [{"@id": f"{view.name}/{name}"} for name in view.key],
        "field": fields,
    }


def _field(view: View, column: Column) -> dict:
    unit = f" Unit: {column.unit}." if column.unit else ""
    source = {"fileSet": {"@id": f"{view.name}-files"}} if view.is_per_archive else {
        "fileObject": {"@id": f"{view.name}.parquet"}
    }  # fmt: skip
    return {
        "@type": "cr:Field",
        "@id": f"{view.name}/{column.name}",
        "name": column.name,
        "description": f"{column.meaning}{unit} Null: {column.null}.",
        "dataType": DATA_TYPES[column.type],
        "source": {**source, "extract": {"column": column.name}},
    }
