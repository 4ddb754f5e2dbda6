"""The curve of Ed25519 in plain integers, affine and slow (RFC 8032 §5.1): what the checks are held to."""

from __future__ import annotations

from hashlib import sha512

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
IDENTITY: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + t, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - t, -1, P)
    return x % P, y % P


def multiply(scalar: int, point: Point) -> Point:
    total = IDENTITY
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def find_x(y: int) -> int | None:
    """The even x of a point with this y, or None when there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return x if x % 2 == 0 else P - x


def encode(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def find_small_order_points() -> set[Point]:
    """The eight points whose order divides 8: a multiple by L of any point is one."""
    y = 2
    while True:
        x = find_x(y)
        if x is not None:
            torsion = multiply(L, (x, y))
            points = {multiply(k, torsion) for k in range(8)}
            if len(points) == 8:
                return points
        y += 1


def get_secret_scalar(seed: bytes) -> int:
    clamped = int.from_bytes(sha512(seed).digest()[:32], "little")
    return clamped & ~7 & ~(1 << 255) | 1 << 254


def hash_to_scalar(*parts: bytes) -> int:
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little") % L
