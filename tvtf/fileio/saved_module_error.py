"""The error of saved models, libraries and saved values that can't be used."""


class SavedModuleError(ValueError):
    """A saved module or library that can't be used; the message names the file, the problem and a remedy."""

    __module__ = "tvtf.saved"
