package dev.phoneproof.harness.protocol

import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory
import java.io.File
import kotlin.io.path.createTempDirectory
import kotlin.random.Random
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue

class GoldenScenesTest {
    private val job = readJob(Golden.jobText)
    private val folders = File(Golden.folder, "attempts").listFiles { file -> file.isDirectory }.orEmpty().sorted()

    @Test
    fun `scenes are there`() {
        assertTrue(folders.size > 50, "${folders.size}")
    }

    @TestFactory
    fun `the rule of attempts`(): List<DynamicTest> =
        folders.map { folder ->
            dynamicTest(folder.name) {
                val expected = parseJson(File(folder, "expected.json").readBytes(), "expected.json") as Json.Obj
                assertEquals(Json.Obj(expected.entries - "about"), answer(folder) { it })
                // Read in whatever order, the events mean the same.
                repeat(5) { seed ->
                    val random = Random(seed)
                    assertEquals(Json.Obj(expected.entries - "about"), answer(folder) { it.shuffled(random) })
                }
            }
        }

    @TestFactory
    fun `output files`(): List<DynamicTest> =
        (Golden.json("outputs/expected.json") as Json.Obj).entries.map { (name, expected) ->
            dynamicTest(name) {
                val golden = File(Golden.folder, "outputs/$name")
                assertEquals(expected["whole"], records(golden, tornTail = false))
                assertEquals(expected["torn_tail_allowed"], records(golden, tornTail = true))
                val copy = File(createTempDirectory("outputs").toFile(), name)
                golden.copyTo(copy)
                // What is wrong inside a record with a right checksum is found by who reads it, not by who appends.
                if (expected["torn_tail_allowed"] != Json.Text("error")) {
                    val ref = OutputWriter(copy, 1L shl 40) {}.use { it.finish() }
                    assertEquals(expected["bytes_kept"].whole, copy.length())
                    assertEquals(sha256().digest(copy.readBytes()).toHex(), ref.sha256)
                }
                copy.parentFile.deleteRecursively()
            }
        }

    private fun records(
        file: File,
        tornTail: Boolean,
    ): Json {
        val found = mutableListOf<Json>()
        try {
            readOutputs(file, tornTail) { record ->
                val tensors =
                    record.tensors.map { tensor ->
                        Json.Obj(
                            mapOf(
                                "dtype" to Json.Text(tensor.dtype.word),
                                "shape" to Json.Arr(tensor.shape.map { Json.Whole(it.toLong()) }),
                                "hex" to Json.Text(tensor.content().toHex()),
                            ),
                        )
                    }
                found += Json.Obj(mapOf("sample" to Json.Whole(record.sample), "tensors" to Json.Arr(tensors)))
            }
        } catch (_: ProtocolException) {
            return Json.Text("error")
        }
        return Json.Arr(found)
    }

    private fun answer(
        folder: File,
        arrange: (List<Event>) -> List<Event>,
    ): Json {
        val progress =
            try {
                progressOf(job, arrange(readEvents(folder)))
            } catch (_: ProtocolException) {
                return Json.Obj(mapOf("error" to Json.Truth(true)))
            }
        val ends = progress.ends.mapValues { (_, end) -> json(end) }
        return Json.Obj(mapOf("next_attempt" to json(progress.next), "case_ends" to Json.Obj(ends)))
    }

    private fun json(attempt: Attempt?): Json {
        if (attempt == null) return Json.Null
        val cases =
            attempt.cases.map { case ->
                val next = case.nextSample?.let(Json::Whole) ?: Json.Null
                Json.Obj(mapOf("case_id" to Json.Text(case.caseId), "next_sample" to next))
            }
        return Json.Obj(mapOf("number" to Json.Whole(attempt.number), "cases" to Json.Arr(cases)))
    }

    private fun json(end: CaseEnd): Json =
        Json.Obj(
            mapOf(
                "outcome" to Json.Text(end.outcome.word),
                "bad" to (end.bad?.let(::json) ?: Json.Null),
                "bad_samples" to Json.Obj(end.badSamples.entries.associate { "${it.key}" to json(it.value) }),
                "finished" to Json.Truth(end.finished),
            ),
        )

    private fun json(bad: BadEnd): Json =
        Json.Obj(
            mapOf(
                "outcome" to Json.Text(bad.outcome.word),
                "cause" to Json.Text(bad.cause),
                "confidence" to Json.Text(bad.confidence.word),
                "code" to (bad.code?.let(Json::Whole) ?: Json.Null),
                "error" to (bad.error?.let(::encoded) ?: Json.Null),
                "attempt" to (bad.attempt?.let(Json::Whole) ?: Json.Null),
            ),
        )
}
