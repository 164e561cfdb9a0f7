"""The version of tvtf."""

__version__ = "0.1.0"
