package dev.phoneproof.harness.protocol

import java.io.File

/** The golden files that Python, Kotlin and Swift tests read; where they are is told by the build. */
object Golden {
    val folder: File = File(checkNotNull(System.getProperty("phoneproof.golden")) { "phoneproof.golden is not set" })

    val jobText: ByteArray get() = File(folder, "attempts/job.json").readBytes()

    fun json(name: String): Json = parseJson(File(folder, name).readBytes(), name)
}

operator fun Json.get(key: String): Json = (this as Json.Obj).entries.getValue(key)

val Json.items: List<Json> get() = (this as Json.Arr).items

val Json.text: String get() = (this as Json.Text).value

val Json.whole: Long get() = (this as Json.Whole).value

val Json.ints: List<Int> get() = items.map { it.whole.toInt() }

fun hex(text: String): ByteArray = ByteArray(text.length / 2) { text.substring(2 * it, 2 * it + 2).toInt(16).toByte() }

fun Tensor.content(): ByteArray = bytes().let { view -> ByteArray(view.remaining()).also(view::get) }
