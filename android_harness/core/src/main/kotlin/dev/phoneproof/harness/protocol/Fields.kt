package dev.phoneproof.harness.protocol

/**
 * The keys of one JSON object, read one by one and each once. [close] refuses the keys that nobody asked for, so
 * a reader cannot forget to be strict about one.
 */
internal class Fields(
    value: Json,
    private val place: String,
) {
    private val entries = (value as? Json.Obj ?: throw wrong("an object", place)).entries
    private val read = mutableSetOf<String>()

    fun text(key: String): String = textOrNull(key) ?: throw wrong("text", at(key))

    fun textOrNull(key: String): String? = scalar(key, "text") { (it as? Json.Text)?.value }

    fun whole(
        key: String,
        least: Long = -Long.MAX_VALUE,
    ): Long = wholeOrNull(key, least) ?: throw wrong("a whole number", at(key))

    fun wholeOrNull(
        key: String,
        least: Long = -Long.MAX_VALUE,
    ): Long? {
        val value = scalar(key, "a whole number") { (it as? Json.Whole)?.value }
        if (value != null && value < least) throw ProtocolException("$value is below the least, $least.", at(key))
        return value
    }

    fun truth(key: String): Boolean =
        scalar(key, "true or false") { (it as? Json.Truth)?.value } ?: throw wrong("true or false", at(key))

    /** A number, whole or not, or null. */
    fun numberOrNull(key: String): Double? =
        scalar(key, "a number") {
            when (it) {
                is Json.Fraction -> it.value
                is Json.Whole -> it.value.toDouble()
                else -> null
            }
        }

    /** One of the words of [T]; see [Word]. */
    inline fun <reified T> word(key: String): T where T : Enum<T>, T : Word {
        val text = text(key)
        return enumValues<T>().firstOrNull { it.word == text }
            ?: throw wrong(enumValues<T>().joinToString(" or ") { it.word }, at(key))
    }

    fun <T> inner(
        key: String,
        decode: (Json, String) -> T,
    ): T = decode(value(key), at(key))

    fun <T : Any> innerOrNull(
        key: String,
        decode: (Json, String) -> T,
    ): T? = value(key).let { if (it is Json.Null) null else decode(it, at(key)) }

    fun <T> list(
        key: String,
        decode: (Json, String) -> T,
    ): List<T> = listOrNull(key, decode) ?: throw wrong("a list", at(key))

    fun <T> listOrNull(
        key: String,
        decode: (Json, String) -> T,
    ): List<T>? {
        val value = value(key)
        if (value is Json.Null) return null
        val items = (value as? Json.Arr ?: throw wrong("a list", at(key))).items
        return items.mapIndexed { index, item -> decode(item, "${at(key)}[$index]") }
    }

    fun <T> map(
        key: String,
        decode: (Json, String) -> T,
    ): Map<String, T> = mapOrNull(key, decode) ?: throw wrong("an object", at(key))

    fun <T> mapOrNull(
        key: String,
        decode: (Json, String) -> T,
    ): Map<String, T>? {
        val value = value(key)
        if (value is Json.Null) return null
        val items = (value as? Json.Obj ?: throw wrong("an object", at(key))).entries
        return items.mapValues { (name, item) -> decode(item, "${at(key)}.${name.take(80)}") }
    }

    /** Refuse keys that were not read. */
    fun close() {
        val unknown = entries.keys.firstOrNull { it !in read } ?: return
        throw ProtocolException("Unknown key '${unknown.take(80)}'.", place)
    }

    fun at(key: String): String = "$place.$key"

    private fun <T : Any> scalar(
        key: String,
        expected: String,
        decode: (Json) -> T?,
    ): T? {
        val value = value(key)
        if (value is Json.Null) return null
        return decode(value) ?: throw wrong(expected, at(key))
    }

    private fun value(key: String): Json {
        read += key
        return entries[key] ?: throw ProtocolException("Missing key '$key'.", place)
    }
}

/** A value of an enumeration with its word on the wire. */
public interface Word {
    public val word: String
}

/** Decode the object [value] at [place], all of its keys. */
internal inline fun <T> fields(
    value: Json,
    place: String,
    decode: Fields.() -> T,
): T {
    val fields = Fields(value, place)
    return fields.decode().also { fields.close() }
}

internal fun wrong(
    expected: String,
    place: String,
): ProtocolException = ProtocolException("Expected $expected.", place)

internal val wholeItem: (Json, String) -> Long = { value, place ->
    (value as? Json.Whole ?: throw wrong("a whole number", place)).value
}

internal val textItem: (Json, String) -> String = { value, place ->
    (value as? Json.Text ?: throw wrong("text", place)).value
}

/** Facts are text, numbers, truths or null; nothing nested. */
internal val factItem: (Json, String) -> Json = { value, place ->
    if (value is Json.Obj || value is Json.Arr) throw wrong("a fact", place) else value
}
