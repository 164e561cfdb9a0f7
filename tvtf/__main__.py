"""``python -m tvtf``: the ``tvtf`` command."""

from tvtf.cli import main

main(prog_name="tvtf")
