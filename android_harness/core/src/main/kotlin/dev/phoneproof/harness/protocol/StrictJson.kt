package dev.phoneproof.harness.protocol

import com.google.gson.Strictness
import com.google.gson.stream.JsonReader
import com.google.gson.stream.JsonToken
import java.io.IOException
import java.io.StringReader
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException

/**
 * JSON as every language of the protocol reads it alike, else a [ProtocolException] at [where].
 *
 * Gson's streaming reader, and nothing else of Gson: no reflection, so nothing that R8 could strip. It knows the
 * grammar; what is refused beyond it is looked at here: bytes that are not UTF-8, a byte order mark (Gson skips
 * one), one key twice, a lone surrogate, numbers that neither a Long nor a finite double holds.
 */
public fun parseJson(
    bytes: ByteArray,
    where: String,
): Json {
    val text =
        try {
            // A decoder of its own: String(bytes, UTF_8) replaces what is wrong.
            Charsets.UTF_8
                .newDecoder()
                .decode(ByteBuffer.wrap(bytes))
                .toString()
        } catch (_: CharacterCodingException) {
            throw ProtocolException("Not JSON: the bytes are not UTF-8.", where)
        }
    if (text.startsWith('\ufeff')) throw ProtocolException("Not JSON: it begins with a byte order mark.", where)
    try {
        val reader = JsonReader(StringReader(text))
        reader.strictness = Strictness.STRICT
        val value = read(reader, where)
        if (reader.peek() != JsonToken.END_DOCUMENT) throw ProtocolException("Not JSON: more than one value.", where)
        return value
    } catch (error: IOException) {
        // MalformedJsonException and EOFException: a StringReader itself does not fail.
        throw ProtocolException("Not JSON: ${error.message.orEmpty().take(200)}.", where)
    }
}

private fun read(
    reader: JsonReader,
    where: String,
): Json =
    when (reader.peek()) {
        JsonToken.BEGIN_OBJECT -> readObject(reader, where)
        JsonToken.BEGIN_ARRAY -> {
            val items = mutableListOf<Json>()
            reader.beginArray()
            while (reader.hasNext()) items += read(reader, where)
            reader.endArray()
            Json.Arr(items)
        }
        JsonToken.STRING -> Json.Text(wholeText(reader.nextString(), where))
        JsonToken.NUMBER -> number(reader.nextString(), where)
        JsonToken.BOOLEAN -> Json.Truth(reader.nextBoolean())
        JsonToken.NULL -> Json.Null.also { reader.nextNull() }
        else -> throw ProtocolException("Not JSON: no value.", where)
    }

private fun readObject(
    reader: JsonReader,
    where: String,
): Json.Obj {
    val entries = LinkedHashMap<String, Json>()
    reader.beginObject()
    while (reader.hasNext()) {
        val key = wholeText(reader.nextName(), where)
        if (key in entries) throw ProtocolException("Not JSON: a key is written twice in one object.", where)
        entries[key] = read(reader, where)
    }
    reader.endObject()
    return Json.Obj(entries)
}

private fun wholeText(
    text: String,
    where: String,
): String {
    if (hasLoneSurrogate(text)) throw ProtocolException("Not JSON: a lone surrogate.", where)
    return text
}

private fun number(
    literal: String,
    where: String,
): Json {
    if (literal.none { it == '.' || it == 'e' || it == 'E' }) {
        // Long.MIN_VALUE is left out: the schemas are symmetric around 0.
        val whole = literal.toLongOrNull()?.takeIf { it != Long.MIN_VALUE }
        return Json.Whole(whole ?: throw ProtocolException("A whole number is beyond 64 bits.", where))
    }
    val fraction = literal.toDouble()
    if (!fraction.isFinite()) throw ProtocolException("A number is beyond a double.", where)
    return Json.Fraction(fraction)
}
