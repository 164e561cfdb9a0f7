"""The error of saved models, libraries and saved values that can't be used."""


class SavedModuleError(ValueError):
    """A saved module or library can't be used; the text says which file, what is wrong and what helps."""

    __module__ = "tvtf.saved"
