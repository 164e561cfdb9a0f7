"""``tvtf gallery``: runs the short programs of ``tvtf.models.gallery``."""

from __future__ import annotations

from pathlib import Path

import click

from tvtf.cli.failures import report_failures


@click.command()
@click.argument("name", required=False)
@click.option("--steps", type=click.IntRange(min=1), help="How long to train.  [default: the program's own]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides all that is random.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/gallery"),
    show_default=True,
    help="Folder for the picture.",
)
@report_failures
def gallery(name: str | None, steps: int | None, seed: int, out: Path) -> None:
    """Run one of the gallery's short programs; without NAME, list them.

    Each trains a model in seconds, draws a picture into the folder, and prints the numbers that matter. docs/gallery.md
    shows them. They take Matplotlib, some also Keras and scikit-learn: pip install 'tvtf[train,keras,plot]'.
    """
    from tvtf.models.gallery import programs, run

    if name is None:
        width = max(map(len, programs()))
        click.echo("\n".join(f"{program:{width}}  {line}" for program, line in programs().items()))
        return
    for key, value in run(name, out, steps, seed).items():
        click.echo(f"{key}: {value:.4g}")
    click.echo(f"written to {out / name}.png")
