"""Encodes profiles for TensorBoard's profile page: an XSpace message, written here because no required package has it.

Source: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PLANE = "/host:CPU"
"""The plane of the host's events, by the name that the profile page expects."""
# Numbers of fields, by message.
SPACE_PLANES, SPACE_HOSTNAMES = 1, 4
PLANE_NAME, PLANE_LINES, PLANE_EVENT_METADATA = 2, 3, 4
LINE_ID, LINE_NAME, LINE_BEGIN_NS, LINE_EVENTS = 1, 2, 3, 4
EVENT_METADATA, EVENT_OFFSET_PS, EVENT_DURATION_PS = 1, 2, 3
METADATA_ID, METADATA_NAME = 1, 2
ENTRY_KEY, ENTRY_VALUE = 1, 2


def encoded(events: Sequence[Mapping[str, Any]], host: str) -> bytes:
    """Encodes profiler events as a serialized XSpace message for TensorBoard, with one line for each thread.

    The events are in Chrome's trace format: "name", "tid" (the thread), and "ts" and "dur" in microseconds.
    """
    names = {name: number for number, name in enumerate(sorted({event["name"] for event in events}), start=1)}
    threads: dict[int, list[Mapping[str, Any]]] = {}
    for event in events:
        threads.setdefault(event["tid"], []).append(event)
    plane = _field(PLANE_NAME, PLANE)
    for number, (thread, thread_events) in enumerate(threads.items(), start=1):
        plane += _field(PLANE_LINES, _encoded_line(number, f"thread {thread}", thread_events, names))
    for name, number in names.items():
        metadata = _field(METADATA_ID, number) + _field(METADATA_NAME, name)
        plane += _field(PLANE_EVENT_METADATA, _field(ENTRY_KEY, number) + _field(ENTRY_VALUE, metadata))
    return _field(SPACE_PLANES, plane) + _field(SPACE_HOSTNAMES, host)


def _encoded_line(number: int, name: str, events: Sequence[Mapping[str, Any]], names: Mapping[str, int]) -> bytes:
    """Encodes the profiler events of one thread as an XLine message.

    The line stores the time of the first event in nanoseconds. Each event stores its offset from that time in
    picoseconds. ``names`` maps the events' names to their metadata IDs.
    """
    begin = min(int(event["ts"] * 1_000) for event in events)
    line = _field(LINE_ID, number) + _field(LINE_NAME, name) + _field(LINE_BEGIN_NS, begin)
    for event in events:
        # Rounding may make the first offset negative.
        offset = round(event["ts"] * 1_000_000) - begin * 1_000
        encoded_event = _field(EVENT_METADATA, names[event["name"]])
        encoded_event += _field(EVENT_OFFSET_PS, max(0, offset))
        encoded_event += _field(EVENT_DURATION_PS, round(event["dur"] * 1_000_000))
        line += _field(LINE_EVENTS, encoded_event)
    return line


def _field(number: int, value: int | str | bytes) -> bytes:
    """Encodes a field of protocol buffers: a varint, or bytes after their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Encodes a number as a protocol buffer's varint: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
