"""A run as a folder that `datasets.load_dataset` reads, ready to be put on the Hugging Face hub.

DIR/README.md                the data set's card, with its configurations
DIR/items/bias.parquet       one row an answered presentation of the split
DIR/items/control.parquet
DIR/scores.parquet           one row a group and metric
DIR/scores.json  manifest.json  data_dictionary.json  data_dictionary.md  export.json
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from mbbq_gen.exports.bundle import ParquetParts, Source, bundle, read_record, write_papers
from mbbq_gen.exports.cards import dataset_card
from mbbq_gen.exports.settings import ExportRecord
from mbbq_gen.report.score_files import score_rows


def write_hf_dataset(source: Source, folder: Path) -> ExportRecord:
    """Writes a run as a data set folder; says what is in it.

    Raises:
        UsageError: where the folder holds something that is no earlier export.
        RunError: where something can't be written.
    """
    splits = source.run.manifest.settings.splits
    with bundle(source, folder, "hf-dataset") as files:
        files.extend(_write_splits(source, folder / "items", splits))
        scores = score_rows(source.scores)
        scores.write_parquet(folder / "scores.parquet")
        files.append(("scores.parquet", scores.height))
        files.extend((name, None) for name in write_papers(source, folder))
        (folder / "README.md").write_text(dataset_card(source, splits), encoding="utf-8")
        files.append(("README.md", None))
    return read_record(folder)


def _write_splits(source: Source, folder: Path, splits: Sequence[str]) -> list[tuple[str, int]]:
    """Writes the items of each split into a file of its own, in one pass; says their names and rows."""
    import polars as pl

    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        files = {
            split: stack.enter_context(ParquetParts(folder / f"{split}.parquet", source.empty())) for split in splits
        }
        for batch in source.items():
            for split, parts in files.items():
                parts.add(batch.filter(pl.col("split") == split))
    return [(f"items/{split}.parquet", parts.rows) for split, parts in files.items()]
