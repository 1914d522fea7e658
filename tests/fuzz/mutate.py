"""Bytes changed at random: what hand-written cases do not think of."""

from __future__ import annotations

import random
from collections.abc import Sequence

TOKENS = (
    *(
        b"null",
        b"true",
        b"NaN",
        b"nan",
        b"Infinity",
        b"-1",
        b"0",
        b"1e999",
        b"1e308",
        b"9" * 30,
        b"[]",
        b"{}",
        b'""',
    ),
    *(
        b"\\ud800",
        b"\xff\xfe",
        b"\0",
        b"\n",
        b'"',
        b"'",
        b"&a",
        b"*a",
        b"!!python/object:os.system",
        b"../..",
        b"/etc/passwd",
    ),
    *(b"[[[[", b"{{{{", b"<!ENTITY x 'y'>", b"%s%n", b"{0.__class__}", b"\xe2\x80\xae", b"</script>"),
)


def mutate(rng: random.Random, corpus: Sequence[bytes], longest: int = 1 << 16) -> bytes:
    """One entry of a corpus with one to four changes."""
    content = bytearray(rng.choice(corpus)[:longest])
    for _ in range(rng.randint(1, 4)):
        begin = rng.randint(0, len(content))
        end = min(len(content), begin + rng.choice((0, 1, 2, 4, 8, 16)))
        match rng.randrange(5):
            case 0:
                content[begin:end] = rng.choice(TOKENS)
            case 1:
                content[begin:end] = rng.randbytes(end - begin)
            case 2:
                del content[begin:]
            case 3:
                content[begin:begin] = content[begin:end] * rng.randint(1, 40)
            case _:
                other = rng.choice(corpus)
                place = rng.randint(0, len(other))
                content[begin:end] = other[place : place + rng.randint(0, 64)]
    return bytes(content)
