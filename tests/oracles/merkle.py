"""SSZ as its text has it: recursive, slow, nothing shared with the package but the names of the types.

Encodings, trees and generalized indices from consensus-specs ssz/simple-serialize, ssz/merkle-proofs,
EIP-7916 (progressive lists), EIP-7495 (progressive containers) and EIP-8016 (compatible unions).
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any

from anchor.merkle.bits import Bitlist, Bitvector
from anchor.merkle.container import ContainerSchema
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint
from anchor.merkle.union import Union

Node = Any
"""A leaf of 32 bytes, or a pair of nodes."""


def encode(schema: Schema[Any], value: Any) -> bytes:
    """simple-serialize, "Serialization"."""
    match schema:
        case Uint():
            return bytes([value >> 8 * i & 0xFF for i in range(schema.fixed_size)])
        case Boolean():
            return b"\x01" if value else b"\x00"
        case ByteVector() | ByteList():
            return bytes(value)
        case Bitvector():
            return _pack_bits(list(value))
        case Bitlist():
            return _pack_bits([*value, True])
        case Union():
            option = schema.options[value.selector]
            return bytes([value.selector]) + (encode(option, value.data) if option else b"")
        case _:
            return _encode_parts(list(_parts(schema, value)))


def is_variable(schema: Schema[Any]) -> bool:
    """Whether encodings of the type differ in length."""
    match schema:
        case List() | ByteList() | Bitlist() | Union():
            return True
        case Vector():
            return is_variable(schema.element)
        case ContainerSchema():
            return any(is_variable(part) for part in schema.schemas.values())
    return False


def _parts(schema: Any, value: Any) -> list[tuple[Schema[Any], Any]]:
    if isinstance(schema, ContainerSchema):
        return [(part, getattr(value, name)) for name, part in schema.schemas.items()]
    return [(schema.element, element) for element in value]


def _encode_parts(parts: list[tuple[Schema[Any], Any]]) -> bytes:
    fixed = [None if is_variable(part) else encode(part, value) for part, value in parts]
    tails = [encode(part, value) if is_variable(part) else b"" for part, value in parts]
    size = sum(4 if head is None else len(head) for head in fixed)
    heads = []
    for i, head in enumerate(fixed):
        offset = size + sum(len(tail) for tail in tails[:i])
        heads.append(offset.to_bytes(4, "little") if head is None else head)
    return b"".join(heads) + b"".join(tails)


def _pack_bits(bits: list[bool]) -> bytes:
    array = [0] * ((len(bits) + 7) // 8)
    for i, bit in enumerate(bits):
        array[i // 8] |= int(bit) << (i % 8)
    return bytes(array)


def build(schema: Schema[Any], value: Any) -> Node:
    """simple-serialize, "Merkleization": the whole tree of a value."""
    match schema:
        case Uint() | Boolean():
            return merkleize(_chunks(encode(schema, value)), 1)
        case ByteVector():
            return merkleize(_chunks(value), _ceil(schema.fixed_size, 32))
        case Bitvector():
            return merkleize(_chunks(_pack_bits(list(value))), _ceil(schema.length, 256))
        case ByteList():
            return _list_node(_chunks(value), schema.limit, 32, len(value))
        case Bitlist():
            return _list_node(_chunks(_pack_bits(list(value))), schema.limit, 256, len(value))
        case Vector():
            return merkleize(_elements(schema, value), _ceil(schema.length, _per_chunk(schema.element)))
        case List():
            return _list_node(_elements(schema, value), schema.limit, _per_chunk(schema.element), len(value))
        case Union():
            option = schema.options[value.selector]
            return (build(option, value.data) if option else bytes(32), _number(value.selector))
        case ContainerSchema():
            return _container_node(schema, value)
    raise TypeError(schema)


def root(node: Node) -> bytes:
    """The root of a node."""
    if isinstance(node, bytes):
        return node
    if node[0] is node[1]:  # the padding: equal halves are hashed once, or a list would take 2^40 steps
        half = root(node[0])
        return sha256(half + half).digest()
    return sha256(root(node[0]) + root(node[1])).digest()


def walk(node: Node, index: int) -> Node:
    """The node at a generalized index. Raises IndexError below a leaf."""
    for bit in f"{index:b}"[1:]:
        if isinstance(node, bytes):
            raise IndexError(index)
        node = node[int(bit)]
    return node


def merkleize(chunks: list[Node], limit: int) -> Node:
    """A binary tree over the chunks, padded to the next power of two of `limit` with zero chunks."""
    depth = 0
    while 1 << depth < max(limit, 1):
        depth += 1
    return _fill(chunks, depth)


def _fill(chunks: list[Node], depth: int) -> Node:
    if not chunks:
        return _zero(depth)
    if depth == 0:
        (chunk,) = chunks
        return chunk
    half = 1 << (depth - 1)
    return (_fill(chunks[:half], depth - 1), _fill(chunks[half:], depth - 1))


@cache
def _zero(depth: int) -> Node:
    return (_zero(depth - 1), _zero(depth - 1)) if depth else bytes(32)


def merkleize_progressive(chunks: list[Node], size: int = 1) -> Node:
    """EIP-7916: a tree of `size` chunks on the left, the rest in subtrees of four times that on the right."""
    if not chunks:
        return bytes(32)
    return (merkleize(chunks[:size], size), merkleize_progressive(chunks[size:], size * 4))


def _list_node(chunks: list[Node], limit: int | None, per_chunk: int, length: int) -> Node:
    if limit is None:
        return (merkleize_progressive(chunks), _number(length))
    return (merkleize(chunks, _ceil(limit, per_chunk)), _number(length))


def _container_node(schema: ContainerSchema, value: Any) -> Node:
    fields = [build(part, getattr(value, name)) for name, part in schema.schemas.items()]
    active = schema.record.active_fields
    if active is None:
        return merkleize(fields, len(fields))
    places = iter(fields)
    chunks = [next(places) if flag == "1" else bytes(32) for flag in active]
    flags = _pack_bits([flag == "1" for flag in active]).ljust(32, b"\0")
    return (merkleize_progressive(chunks), flags)


def _elements(schema: Any, value: Any) -> list[Node]:
    if isinstance(schema.element, Uint | Boolean):
        return list(_chunks(b"".join(encode(schema.element, element) for element in value)))
    return [build(schema.element, element) for element in value]


def _chunks(data: bytes) -> list[Node]:
    return [data[i : i + 32].ljust(32, b"\0") for i in range(0, len(data), 32)]


def _per_chunk(element: Schema[Any]) -> int:
    return 32 // element.fixed_size if isinstance(element, Uint | Boolean) else 1


def _number(value: int) -> bytes:
    return value.to_bytes(32, "little")


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)
