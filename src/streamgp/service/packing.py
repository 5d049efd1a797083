"""Trees of plain values and arrays as one string of bytes: JSON and safetensors, no pickle."""

import json
from typing import Any

import safetensors.numpy

from streamgp.numerics.checkpoint.encoding import decode, encode

_NODE = "tree"


def pack(tree: Any) -> bytes:
    """Return a tree as bytes."""
    node, arrays = encode(tree)
    return safetensors.numpy.save(arrays, {_NODE: json.dumps(node, separators=(",", ":"))})


def unpack(data: bytes) -> Any:
    """Return the tree that `pack` was given."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return decode(json.loads(header["__metadata__"][_NODE]), safetensors.numpy.load(data), {})
