package dev.phoneproof.harness.protocol

import java.security.MessageDigest

/** A JSON value as the protocol knows them: whole numbers and fractions are two kinds (`1.0` is a fraction). */
public sealed interface Json {
    public data class Obj(
        val entries: Map<String, Json>,
    ) : Json

    public data class Arr(
        val items: List<Json>,
    ) : Json

    public data class Text(
        val value: String,
    ) : Json

    public data class Whole(
        val value: Long,
    ) : Json

    public data class Fraction(
        val value: Double,
    ) : Json

    public data class Truth(
        val value: Boolean,
    ) : Json

    public data object Null : Json
}

/** The greatest whole number that a double holds with all below it; RFC 8785 takes every number for a double. */
private const val MAX_CANONICAL: Long = (1L shl 53) - 1

/** One line of JSON without white space, keys in the order of the map. Lone surrogates become U+FFFD. */
public fun Json.compact(): String = StringBuilder().also { append(it, this, sorted = false) }.toString()

/**
 * The canonical form (RFC 8785 for values without fractions).
 *
 * @throws ProtocolException for what has none: fractions, whole numbers beyond ±(2^53 − 1), keys that are not
 *   ASCII, lone surrogates.
 */
public fun Json.canonical(): String {
    requireCanonical(this, "$")
    return StringBuilder().also { append(it, this, sorted = true) }.toString()
}

/** Lower-case hexadecimal sha256 of the canonical form; with `job_id` left out it is the id of a job. */
public fun Json.canonicalSha256(): String = sha256().digest(canonical().toByteArray(Charsets.UTF_8)).toHex()

internal fun sha256(): MessageDigest = MessageDigest.getInstance("SHA-256")

internal fun ByteArray.toHex(): String =
    buildString(size * 2) {
        for (byte in this@toHex) {
            append(HEX_DIGITS[(byte.toInt() shr 4) and 0xf]).append(HEX_DIGITS[byte.toInt() and 0xf])
        }
    }

/** Whether a UTF-16 text has half of a surrogate pair; such a text has no UTF-8 form. */
internal fun hasLoneSurrogate(text: String): Boolean {
    var index = 0
    while (index < text.length) {
        val char = text[index]
        if (char.isHighSurrogate() && text.getOrNull(index + 1)?.isLowSurrogate() == true) {
            index += 2
        } else if (char.isSurrogate()) {
            return true
        } else {
            index += 1
        }
    }
    return false
}

private const val HEX_DIGITS = "0123456789abcdef"

private fun requireCanonical(
    value: Json,
    place: String,
) {
    when (value) {
        is Json.Fraction -> throw ProtocolException("A fraction has no canonical form.", place)
        is Json.Whole ->
            if (value.value !in -MAX_CANONICAL..MAX_CANONICAL) {
                throw ProtocolException("A whole number beyond 2^53 - 1 has no canonical form.", place)
            }
        is Json.Text ->
            if (hasLoneSurrogate(value.value)) {
                throw ProtocolException("A lone surrogate has no canonical form.", place)
            }
        is Json.Obj ->
            for ((key, item) in value.entries) {
                if (key.any { it.code > 0x7f }) {
                    throw ProtocolException("A key of a canonical object is not ASCII.", place)
                }
                requireCanonical(item, "$place.${key.take(80)}")
            }
        is Json.Arr -> value.items.forEachIndexed { index, item -> requireCanonical(item, "$place[$index]") }
        is Json.Truth, Json.Null -> Unit
    }
}

private fun append(
    out: StringBuilder,
    value: Json,
    sorted: Boolean,
) {
    when (value) {
        is Json.Text -> appendText(out, value.value)
        is Json.Whole -> out.append(value.value)
        is Json.Fraction -> out.append(value.value.also { require(it.isFinite()) { "JSON has no $it" } })
        is Json.Truth -> out.append(value.value)
        Json.Null -> out.append("null")
        is Json.Arr -> {
            out.append('[')
            value.items.forEachIndexed { index, item ->
                if (index > 0) out.append(',')
                append(out, item, sorted)
            }
            out.append(']')
        }
        is Json.Obj -> {
            out.append('{')
            val entries = if (sorted) value.entries.toSortedMap() else value.entries
            entries.entries.forEachIndexed { index, (key, item) ->
                if (index > 0) out.append(',')
                appendText(out, key)
                out.append(':')
                append(out, item, sorted)
            }
            out.append('}')
        }
    }
}

private fun appendText(
    out: StringBuilder,
    text: String,
) {
    out.append('"')
    text.forEachIndexed { index, char ->
        when {
            char == '"' -> out.append("\\\"")
            char == '\\' -> out.append("\\\\")
            char == '\b' -> out.append("\\b")
            char == '\u000c' -> out.append("\\f")
            char == '\n' -> out.append("\\n")
            char == '\r' -> out.append("\\r")
            char == '\t' -> out.append("\\t")
            char.code < 0x20 -> out.append("\\u00").append(byteArrayOf(char.code.toByte()).toHex())
            isHalf(text, index) -> out.append('\ufffd')
            else -> out.append(char)
        }
    }
    out.append('"')
}

private fun isHalf(
    text: String,
    index: Int,
): Boolean {
    val char = text[index]
    return when {
        char.isHighSurrogate() -> text.getOrNull(index + 1)?.isLowSurrogate() != true
        char.isLowSurrogate() -> text.getOrNull(index - 1)?.isHighSurrogate() != true
        else -> false
    }
}
