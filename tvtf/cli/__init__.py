"""The ``tvtf`` command. Each subcommand imports what it needs when it runs, so that ``tvtf --help`` is fast."""

from __future__ import annotations

import click

from tvtf.cli.cache import cache
from tvtf.cli.devices import devices
from tvtf.cli.gallery import gallery
from tvtf.cli.inference import compile_, export, run
from tvtf.cli.program import exec_
from tvtf.cli.saved_model import saved_model
from tvtf.cli.train import train
from tvtf.cli.tune import tune
from tvtf.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tvtf")
def main() -> None:
    """TensorFlow 2's way of writing programs, compiled by Apache TVM.

    \b
    Examples:
      tvtf train digits                          train a small network, from scratch to ONNX
      tvtf train keras                           the same images with a model of Keras
      tvtf gallery pinn                          a short program, and its picture
      tvtf compile runs/digits/model -o lib.so   one library with code and weights
      tvtf compile digits.keras -o lib.so        the same for a model of Keras
      tvtf run lib.so --input x.npy              run it, without the compiler
      tvtf export runs/digits/model -o m.onnx    the same model for ONNX Runtime
      tvtf tune runs/digits/model                quicker kernels for this machine
      tvtf exec train.py                         a TensorFlow program, unchanged, on tvtf
      tvtf cache --clear                         forget compiled code
      tvtf saved-model show --dir D --all        what a saved model holds
    """


for command in (train, gallery, compile_, run, export, tune, saved_model, devices, cache, exec_):
    main.add_command(command)
