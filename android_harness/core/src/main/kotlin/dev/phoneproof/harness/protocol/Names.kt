package dev.phoneproof.harness.protocol

/** Whether a text can name a case: 1 to 100 of `a-z 0-9 - _ .`, the first not a dot. */
public fun isPlainId(text: String): Boolean =
    text.length in 1..100 && !text.startsWith('.') &&
        text.all { it in 'a'..'z' || it in '0'..'9' || it == '-' || it == '_' || it == '.' }

/**
 * Whether a relative path stays in its folder, and can be made, on every system. A part that ends in a dot or a
 * space is refused because Windows drops those: `.. ` would become `..`.
 */
public fun isInnerPath(name: String): Boolean =
    name.codePointCount(0, name.length) <= 1000 && name.split('/').all(::isInnerPart)

/** Whether a text is 64 lower-case hexadecimal digits. */
public fun isSha256(text: String): Boolean = text.length == 64 && text.all { it in '0'..'9' || it in 'a'..'f' }

private const val FORBIDDEN = "\\:\"<>|?*\u007f"
private const val MAX_PART_BYTES = 255

private fun isInnerPart(part: String): Boolean =
    part.isNotEmpty() && part.last() != '.' && part.last() != ' ' &&
        part.none { it in FORBIDDEN || it.code < 0x20 } && !hasLoneSurrogate(part) &&
        part.toByteArray(Charsets.UTF_8).size <= MAX_PART_BYTES
