"""The operators of an ONNX file, read from its bytes: where a classifier only predicts, the library onnx is not needed."""

from collections.abc import Iterator

GRAPH, FUNCTIONS = 7, 25  # fields of a model
VARINT, EIGHT_BYTES, PREFIXED, FOUR_BYTES = 0, 1, 2, 5  # kinds of values


def check_operators(content: bytes) -> None:
    """An error if the file has operators that no exported classifier has: those may run forever."""
    for number, start, end in _fields(content, 0, len(content)):
        if number == FUNCTIONS:
            raise ValueError("it defines functions")
        if number == GRAPH:
            # those hold graphs of their own, which may never end
            endless = {"Loop", "Scan", "If", "SequenceMap"}.intersection(_operators(content, start, end))
            if endless:
                raise ValueError(f"it has the operator {min(endless)}")


def _operators(content: bytes, start: int, end: int) -> Iterator[str]:
    for number, node, node_end in _fields(content, start, end):
        if number == 1:  # a node
            for field, first, last in _fields(content, node, node_end):
                if field == 4:  # its operator
                    yield content[first:last].decode()


def _fields(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message of Protocol Buffers: the number of each, and where its bytes start and end."""
    while start < end:
        key, start = _varint(content, start)
        kind = key & 7
        if kind == VARINT:
            _, last = _varint(content, start)
        elif kind == PREFIXED:
            length, start = _varint(content, start)
            last = start + length
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            last = start + (8 if kind == EIGHT_BYTES else 4)
        else:
            raise ValueError("it is no message of Protocol Buffers")
        if last > end:
            raise ValueError("it ends too early")
        yield key >> 3, start, last
        start = last


def _varint(content: bytes, start: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    value = 0
    for index, byte in enumerate(content[start : start + 10]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, start + index + 1
    raise ValueError("it has a number without end")
