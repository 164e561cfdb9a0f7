"""The version of tvtf."""

__version__ = "0.1.0"
VERSION = __version__
GIT_VERSION = "unknown"
