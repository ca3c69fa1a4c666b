package dev.phoneproof.harness.protocol

import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.io.path.createTempDirectory
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertTrue

class GoldenVectorsTest {
    @TestFactory
    fun `canonical form`(): List<DynamicTest> =
        Golden.json("canonical.json")["vectors"].items.map { vector ->
            val text = vector["text"].text
            dynamicTest("<${text.take(40)}>") {
                val canonical = vector["canonical"]
                if (canonical is Json.Null) {
                    assertFailsWith<ProtocolException> { parseJson(text.toByteArray(), "vector").canonical() }
                } else {
                    val value = parseJson(text.toByteArray(), "vector")
                    assertEquals(canonical.text, value.canonical())
                    assertEquals(vector["sha256"].text, value.canonicalSha256())
                }
            }
        }

    @Test
    fun names() {
        val names = Golden.json("names.json")

        fun listed(key: String) = names[key].items.map { it.text }
        assertEquals(emptyList(), listed("plain_ids").filterNot(::isPlainId))
        assertEquals(emptyList(), listed("no_plain_ids").filter(::isPlainId))
        assertEquals(emptyList(), listed("inner_paths").filterNot(::isInnerPath))
        assertEquals(emptyList(), listed("no_inner_paths").filter(::isInnerPath))
        assertFalse(isInnerPath("a".repeat(256)))
        assertFalse(isInnerPath("\u00e9".repeat(128)))
        assertFalse(isInnerPath("a/".repeat(500) + "a"))
        assertFalse(isInnerPath("\ud800"))
    }

    @Test
    fun `the job of the scenes is sound`() {
        assertEquals(5, readJob(Golden.jobText).cases.size)
    }

    @TestFactory
    fun `refused jobs`(): List<DynamicTest> =
        Golden.json("refused_jobs.json")["jobs"].items.map { refused ->
            dynamicTest(refused["about"].text) {
                val place = refused["place"].items
                val isId = place.singleOrNull() == Json.Text("job_id")
                var content = replaced(parseJson(Golden.jobText, "job"), place, refused["value"])
                // A value that no canonical form has is refused all the same, and needs no id.
                if (!isId) content = withId(content)
                val error = assertFailsWith<ProtocolException> { readJob(content.compact().toByteArray()) }
                assertEquals(isId, "digest that it names" in error.what, error.what)
            }
        }

    @TestFactory
    fun `a job without a key is refused`(): List<DynamicTest> {
        val job = parseJson(Golden.jobText, "job") as Json.Obj
        val top = job.entries.keys.map { it to Json.Obj(job.entries - it) }
        val limits = job["limits"] as Json.Obj
        val inner =
            limits.entries.keys.map { key ->
                "limits.$key" to Json.Obj(job.entries + ("limits" to Json.Obj(limits.entries - key)))
            }
        return (top + inner).map { (name, content) ->
            dynamicTest(name) {
                val sealed = if (name == "job_id") content else withId(content)
                assertFailsWith<ProtocolException> { readJob(sealed.compact().toByteArray()) }
            }
        }
    }

    @TestFactory
    fun `what is kept`(): List<DynamicTest> =
        Golden.json("keep.json")["vectors"].items.map { vector ->
            dynamicTest(vector["about"].text) {
                val keep = keep(vector["keep"], "keep")
                val outputs = vector["outputs"].items.map(::tensor)
                if (vector["kept"] is Json.Null) {
                    assertFailsWith<ProtocolException> { applyKeep(keep, outputs) }
                } else {
                    val expected = vector["kept"].items.map(::tensor)
                    val kept = applyKeep(keep, outputs)
                    assertEquals(expected.map { it.dtype to it.shape }, kept.map { it.dtype to it.shape })
                    expected.zip(kept).forEach { (one, other) -> assertContentEquals(one.content(), other.content()) }
                }
            }
        }

    @TestFactory
    fun `pixels and table to tensor`(): List<DynamicTest> =
        Golden.json("samples.json")["vectors"].items.map { vector ->
            dynamicTest(vector["about"].text) {
                val files = createTempDirectory("samples").toFile()

                fun put(
                    name: String,
                    content: ByteArray,
                ): FileRef {
                    val ref = FileRef(name, sha256().digest(content).toHex(), content.size.toLong())
                    val file = File(files, ref.storedPath)
                    file.parentFile.mkdirs()
                    file.writeBytes(content)
                    return ref
                }
                val pixels = vector["pixels"].ints.map(Int::toByte).toByteArray()
                val other = pixels.reversedArray()
                val input =
                    SampleInput.Table(
                        name = "image",
                        dtype = dtype(vector),
                        shape = vector["shape"].items.map { it.whole },
                        layout = Layout.entries.first { it.word == vector["layout"].text },
                        pixelsShape = vector["pixels_shape"].items.map { it.whole },
                        shards = listOf(Shard(put("first.bin", other), 1), Shard(put("second.bin", pixels + other), 2)),
                        table = put("table.bin", hex(vector["table_hex"].text)),
                    )
                SampleReader(SampleSet("set", 3, listOf(input)), files).use { reader ->
                    val tensor = reader.read(1).getValue("image")
                    assertEquals(vector["shape"].ints, tensor.shape)
                    assertContentEquals(hex(vector["tensor_hex"].text), tensor.content())
                }
                assertTrue(files.deleteRecursively())
            }
        }

    private fun withId(content: Json): Json {
        val entries = (content as Json.Obj).entries
        val rest = Json.Obj(entries - "job_id")
        return Json.Obj(entries + ("job_id" to Json.Text(rest.canonicalSha256())))
    }

    private fun replaced(
        content: Json,
        place: List<Json>,
        value: Json,
    ): Json {
        val step = place.firstOrNull() ?: return value
        return when (content) {
            is Json.Obj -> {
                val inner = content.entries[step.text] ?: Json.Null
                Json.Obj(content.entries + (step.text to replaced(inner, place.drop(1), value)))
            }
            is Json.Arr -> {
                val items = content.items.toMutableList()
                val at = step.whole.toInt()
                items[at] = replaced(items[at], place.drop(1), value)
                Json.Arr(items)
            }
            else -> error("no such place")
        }
    }

    private fun dtype(vector: Json) = DType.entries.first { it.word == vector["dtype"].text }

    private fun tensor(vector: Json): Tensor {
        val dtype = dtype(vector)
        val values = vector["values"].items
        val data = ByteBuffer.allocate(values.size * dtype.bytes).order(ByteOrder.LITTLE_ENDIAN)
        for (value in values) {
            val number =
                when (value) {
                    is Json.Whole -> value.value.toDouble()
                    is Json.Fraction -> value.value
                    else -> value.text.toDouble()
                }
            val whole = (value as? Json.Whole)?.value ?: 0
            when (dtype) {
                DType.FLOAT64 -> data.putDouble(number)
                DType.FLOAT32 -> data.putFloat(number.toFloat())
                DType.FLOAT16 -> data.putShort(half(number))
                else -> repeat(dtype.bytes) { data.put((whole shr (8 * it)).toByte()) }
            }
        }
        data.rewind()
        return Tensor(dtype, vector["shape"].ints, data)
    }

    /** The half of that value, looked for among all: only the reading of halves is under test. */
    private fun half(number: Double): Short {
        if (number.isNaN()) return 0x7e00
        val bits = (0..0xffff).first { halfToDouble(it.toShort()).compareTo(number) == 0 }
        return bits.toShort()
    }
}
