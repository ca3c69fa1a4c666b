"""Foreign text made safe to look at.

Escaping keeps a name from becoming markup, not from misleading the eye: a right-to-left override shows
`gnp.exe` as `exe.png`, and half a surrogate pair cannot be written to a file at all. Such characters are
replaced by their name in angle brackets, so that the reader sees that they are there.
"""

import unicodedata
from typing import Final

_KEPT: Final = frozenset("\n\t")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


def visible(text: str) -> str:
    """`text` with controls, format characters and lone surrogates spelled out, as in `<U+202E>`.

    New lines and tabs stay. The result may hold `<` and must still be escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(character) for character in text)


def shortened(text: str, length: int) -> str:
    """At most `length` characters, the middle left out: the end of a build_id tells most."""
    if len(text) <= length:
        return text
    head = (length - 1) // 3
    return f"{text[:head]}{_ELLIPSIS}{text[len(text) - (length - 1 - head) :]}"


def _spelled(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDDEN:
        return character
    return f"<U+{ord(character):04X}>"
