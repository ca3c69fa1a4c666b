package dev.phoneproof.harness.protocol

import java.io.File
import java.nio.ByteBuffer
import kotlin.io.path.createTempDirectory
import kotlin.random.Random
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith

class CodecPropertiesTest {
    @Test
    fun `events that were written are read, and a file that was cut anywhere loses its torn line only`() {
        repeat(30) { seed ->
            val random = Random(seed)
            val events = List(1 + random.nextInt(8)) { event(random, 3, it.toLong()) }
            val lines = events.map(::eventLine)
            val bytes = lines.reduce(ByteArray::plus)
            assertEquals(events, parseEventFile(bytes, "0003.jsonl", 3), "seed $seed")
            for (cut in bytes.indices) {
                val whole = bytes.take(cut).count { it == LINE_FEED }
                assertEquals(events.take(whole), parseEventFile(bytes.copyOf(cut), "0003.jsonl", 3), "seed $seed")
            }
        }
    }

    @Test
    fun `half a surrogate pair becomes the replacement character`() {
        val stamp = Stamp(1, 0, 0, 0)
        val log = listOf("\ud83d", "a\ude00b", "\ud83d\ude00")
        val word = AttemptEnded(stamp, EndCause.EXITED, 1, Confidence.HIGH, logTail = log)
        val read = parseEventFile(eventLine(word), "attempts.jsonl", null).single() as AttemptEnded
        assertEquals(listOf("\ufffd", "a\ufffdb", "\ud83d\ude00"), read.logTail)
    }

    @Test
    fun `an output file that was cut anywhere is resumed to the same bytes`() {
        val folder = createTempDirectory("outputs").toFile()
        repeat(6) { seed ->
            val random = Random(seed)
            val records = (0L until 9).filter { random.nextBoolean() }.map { it to tensors(random) }
            val file = File(folder, "case.bin").apply { delete() }
            val ref = write(file, 0, records)
            val whole = file.readBytes()
            assertEquals(sha256().digest(whole).toHex(), ref.sha256)
            for (cut in 0..whole.size) {
                // Zeros: what some file systems leave where bytes were not yet written.
                file.writeBytes(whole.copyOf(cut) + ByteArray(listOf(0, 7, 100)[cut % 3]))
                val left = mutableSetOf<Long>()
                readOutputs(file, tornTail = true) { left += it.sample }
                val missing = missingSamples(file, 0, 9).filter { sample -> records.any { it.first == sample } }
                assertEquals(records.map { it.first }.filter { it !in left }, missing, "seed $seed, cut $cut")
                val next = missing.minOrNull() ?: 9
                assertEquals(ref, write(file, next, records.filter { it.first >= next }), "seed $seed, cut $cut")
                assertContentEquals(whole, file.readBytes(), "seed $seed, cut $cut")
            }
        }
        folder.deleteRecursively()
    }

    @Test
    fun `hostile bytes are refused or read, and nothing else`() {
        val file = File(createTempDirectory("outputs").toFile(), "case.bin")
        write(file, 0, listOf(0L to tensors(Random(1)), 3L to tensors(Random(2))))
        val whole = file.readBytes()
        repeat(500) { seed ->
            val random = Random(seed)
            val bytes = whole.copyOf()
            repeat(1 + random.nextInt(3)) { bytes[random.nextInt(bytes.size)] = random.nextInt().toByte() }
            file.writeBytes(bytes)
            for (tornTail in listOf(true, false)) {
                try {
                    readOutputs(file, tornTail) {}
                } catch (_: ProtocolException) {
                    continue
                }
            }
        }
        file.parentFile.deleteRecursively()
    }

    @Test
    fun `samples out of order and foreign files are refused`() {
        val file = File(createTempDirectory("outputs").toFile(), "case.bin")
        OutputWriter(file, 3) {}.use { writer ->
            assertFailsWith<ProtocolException> { writer.append(2, emptyList()) }
            writer.append(4, emptyList())
            assertFailsWith<ProtocolException> { writer.append(4, emptyList()) }
        }
        file.writeText("something else entirely")
        assertFailsWith<ProtocolException> { OutputWriter(file, 0) {} }
        assertEquals("something else entirely", file.readText())
        file.parentFile.deleteRecursively()
    }

    private fun write(
        file: File,
        next: Long,
        records: List<Pair<Long, List<Tensor>>>,
    ): FileRef =
        OutputWriter(file, next) {}.use { writer ->
            records.forEach { (sample, tensors) -> writer.append(sample, tensors) }
            writer.finish()
        }

    private fun tensors(random: Random): List<Tensor> =
        List(random.nextInt(3)) {
            val dtype = (DType.entries - DType.BOOL).random(random)
            val shape = List(random.nextInt(3)) { random.nextInt(3) }
            Tensor(dtype, shape, ByteBuffer.wrap(random.nextBytes(shape.fold(dtype.bytes, Int::times))))
        }

    private fun event(
        random: Random,
        attempt: Long,
        seq: Long,
    ): StampedEvent {
        val text = listOf("", "a\n\"\\\u0001", "\u00e9\u2028", "\ud83d\ude00").random(random)
        val error = CaseError("RuntimeException", text)
        val event =
            if (seq == 0L) {
                val facts = mapOf(text to Json.Null, "n" to Json.Fraction(0.1))
                RunnerEvent.JobStarted("0".repeat(64), facts, mapOf("r" to text))
            } else {
                when (random.nextInt(7)) {
                    0 -> RunnerEvent.CaseStarted("case", random.nextLong(0, 9).takeIf { random.nextBoolean() })
                    1 -> RunnerEvent.SampleStarted("case", random.nextLong(0, Long.MAX_VALUE))
                    2 -> RunnerEvent.SampleFailed("case", 3, error)
                    3 ->
                        RunnerEvent.RoundFinished("case", 0, Order.B, null, 2, listOf(listOf(1, 2)), listOf(5L))
                    4 ->
                        RunnerEvent.CaseFinished(
                            "case",
                            error.takeIf { random.nextBoolean() },
                            Measured(random.nextDouble(), null, 1e-7, 5, "gpu", mapOf("cpu" to 2L), null),
                            FileRef("outputs/case.bin", "0".repeat(64), 8).takeIf { random.nextBoolean() },
                        )
                    5 -> RunnerEvent.Heartbeat(null, 5)
                    else -> RunnerEvent.JobFinished
                }
            }
        return StampedEvent(Stamp(attempt, seq, random.nextLong(-9, 9), random.nextLong(0, 9)), event)
    }
}
