package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.FolderSync
import dev.phoneproof.harness.protocol.Order
import dev.phoneproof.harness.protocol.Outcome
import dev.phoneproof.harness.protocol.OutputRecord
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.readOutputs
import dev.phoneproof.harness.runner.JobFolder.Companion.benchmark
import dev.phoneproof.harness.runner.JobFolder.Companion.infer
import dev.phoneproof.harness.runner.JobFolder.Companion.load
import org.junit.jupiter.api.AfterEach
import java.io.File
import kotlin.random.Random
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue

class RunnerTest {
    private val log = mutableListOf<String>()
    private val folders = mutableListOf<JobFolder>()

    @AfterEach
    fun clean() {
        folders.forEach(JobFolder::delete)
    }

    @Test
    fun `a whole job in one attempt`() {
        val job = run(JobFolder(listOf(load("float"), infer("float"), load("int8"))))
        assertNull(job.progress.next)
        assertTrue(
            job.progress.ends.values
                .all { it.outcome == Outcome.PASSED },
        )
        val begun = job.told.first() as RunnerEvent.JobStarted
        assertEquals(mapOf("fake" to "1.2.3"), begun.runtimes)
        assertEquals(RunnerEvent.JobFinished, job.told.last())
        val kept =
            outputs(job, "float").associate {
                it.sample to
                    it.tensors
                        .single()
                        .bytes()
                        .asFloatBuffer()
                        .get(1)
            }
        assertEquals((0L until 6L).associateWith { 2 * it + 1f }, kept)
        assertEquals(mapOf("cpu" to 2L), job.finished("load-float").measured.operators)
        assertTrue(assertNotNull(job.finished("load-float").measured.loadMs) >= 0)
        // One configuration is in memory at a time, and it is loaded once for its cases.
        assertEquals(listOf("load", "close", "load", "close"), log.filter { it == "load" || it == "close" })
    }

    @Test
    fun `a finished job is left alone`() {
        val job = run(JobFolder(listOf(load("float"))))
        run(job)
        assertEquals(1, job.told.count { it is RunnerEvent.JobStarted })
    }

    @Test
    fun `a build that does not load ends its own cases only`() {
        val link = mapOf("load" to "link")
        val cases = listOf(load("float"), infer("float"), load("int8"), infer("int8"))
        val job = run(JobFolder(cases, floatOptions = link))
        val error = assertNotNull(job.finished("load-float").error)
        assertEquals("UnsatisfiedLinkError" to "no libfake.so", error.type to error.message)
        assertTrue(job.told.none { it is RunnerEvent.CaseStarted && it.caseId == "infer-float" })
        assertEquals(
            Outcome.NOT_RUN,
            job.progress.ends
                .getValue("infer-float")
                .outcome,
        )
        assertEquals(
            Outcome.PASSED,
            job.progress.ends
                .getValue("infer-int8")
                .outcome,
        )
    }

    @Test
    fun `a sample that the runtime refuses is one bad sample`() {
        val job = run(JobFolder(listOf(load("float"), infer("float")), floatOptions = mapOf("throw_at" to "2")))
        val end = job.progress.ends.getValue("infer-float")
        assertEquals(Outcome.FAILED, end.outcome)
        assertEquals(setOf(2L), end.badSamples.keys)
        assertEquals(listOf(0L, 1L, 3L, 4L, 5L), outputs(job, "float").map { it.sample })
    }

    @Test
    fun `too many bad samples end the case`() {
        val options = mapOf("throw_at" to "1")
        val job = run(JobFolder(listOf(load("float"), infer("float")), floatOptions = options, badSamples = 1))
        assertEquals(listOf(0L, 1L), job.told.filterIsInstance<RunnerEvent.SampleStarted>().map { it.sample })
        assertEquals(
            setOf(1L, 2L, 3L, 4L, 5L),
            job.progress.ends
                .getValue("infer-float")
                .badSamples.keys,
        )
        assertNotNull(job.finished("infer-float").output)
    }

    @Test
    fun `a file that is not what the job says is not used`() {
        val job = JobFolder(listOf(load("float")))
        val model = File(job.folder, "files/${job.job.configuration("float").model.storedPath}")
        model.writeText("a mode1")
        run(job)
        assertTrue("sha256" in assertNotNull(job.finished("load-float").error).message)
    }

    @Test
    fun `argmax is what is stored where it is asked for`() {
        val keep = """{"kind":"argmax","k":null,"axis":-1}"""
        val job = run(JobFolder(listOf(load("float"), infer("float", keep))))
        assertTrue(
            outputs(job, "float").all {
                it.tensors
                    .single()
                    .bytes()
                    .getInt() == 1
            },
        )
    }

    @Test
    fun `a pair in process runs in rounds of ABBA`() {
        val cases = listOf(load("float"), load("int8"), benchmark("in_process"))
        val job = run(JobFolder(cases, mapOf("name" to "a"), mapOf("name" to "b"), threads = 2))
        val rounds = job.told.filterIsInstance<RunnerEvent.RoundFinished>()
        assertEquals(listOf(0L, 1L), rounds.map { it.round })
        for (round in rounds) {
            assertEquals(Order.ABBA, round.order)
            assertEquals(4, round.visitsNs.size)
            assertEquals(round.visitsNs[0].size, round.visitsNs[3].size)
            assertEquals(round.visitsNs[1].size, round.visitsNs[2].size)
            assertTrue(round.visitsNs.flatten().all { it > 0 })
            assertTrue(round.visitsNs.all { it.size in 1..5 })
        }
        val measured = job.finished("bench").measured
        assertNotNull(measured.firstMs)
        assertNotNull(measured.baselineFirstMs)
        assertTrue(assertNotNull(measured.clockResolutionNs) > 0)
        // Warm-up of b and a, then twice a b b a, where neighbours that are alike cannot be told apart.
        val runs = log.filter { it.startsWith("run") }
        val stretches = runs.filterIndexed { index, run -> index == 0 || run != runs[index - 1] }
        assertEquals(listOf("b", "a", "b", "a", "b", "a").map { "run $it" }, stretches)
        // Two load cases, then both sides afresh: the timed session is not one that ran before.
        assertEquals(4, log.count { it == "load" })
        assertEquals(4, log.count { it == "close" })
    }

    @Test
    fun `a pair by process has one side in memory at a time`() {
        val cases = listOf(load("float"), load("int8"), benchmark("by_process"))
        val job = run(JobFolder(cases, mapOf("name" to "a"), mapOf("name" to "b")))
        assertEquals(
            Outcome.PASSED,
            job.progress.ends
                .getValue("bench")
                .outcome,
        )
        val memory = log.filter { it == "load" || it == "close" }
        assertEquals(List(memory.size) { if (it % 2 == 0) "load" else "close" }, memory)
        val loaded = log.filter { it.startsWith("loaded") }.drop(2)
        assertEquals(listOf("a", "b", "b", "a", "a", "b", "b", "a").map { "loaded $it" }, loaded)
        val rounds = job.told.filterIsInstance<RunnerEvent.RoundFinished>()
        assertEquals(1, rounds.map { it.candidateBatch }.toSet().size)
    }

    @Test
    fun `a candidate alone has one visit in a round`() {
        val job = run(JobFolder(listOf(load("int8"), benchmark("none"))))
        val rounds = job.told.filterIsInstance<RunnerEvent.RoundFinished>()
        assertEquals(listOf(Order.B to 1, Order.B to 1), rounds.map { it.order to it.visitsNs.size })
        assertNull(job.finished("bench").measured.baselineFirstMs)
    }

    @Test
    fun `what is lost of an output file runs again`() {
        val job = run(JobFolder(listOf(load("float"), infer("float"))))
        val whole = File(job.folder, "outputs/infer-float.bin")
        val before = whole.readBytes()
        // As after a loss of power: the last events and the last records are gone.
        val events = File(job.folder, "events/0001.jsonl")
        events.writeText(events.readLines().takeWhile { "\"sample\":5" !in it }.joinToString("") { "$it\n" })
        whole.writeBytes(before.copyOf(before.size - 150))
        run(job)
        assertNull(job.progress.next)
        assertTrue(before.contentEquals(whole.readBytes()))
    }

    @Test
    fun `a runner that was cut off anywhere is finished by the next`() {
        val job = run(JobFolder(listOf(load("float"), infer("float"), load("int8"))))
        val events = File(job.folder, "events/0001.jsonl")
        val outputs = File(job.folder, "outputs/infer-float.bin")
        val allEvents = events.readBytes()
        val allOutputs = outputs.readBytes()
        repeat(40) { seed ->
            val random = Random(seed)
            File(job.folder, "events").deleteRecursively()
            events.parentFile.mkdirs()
            events.writeBytes(allEvents.copyOf(random.nextInt(allEvents.size)))
            // What a case ended with was synced before; until then the file may have lost anything.
            val ended = "infer-float" in job.progress.ends
            outputs.writeBytes(allOutputs.copyOf(if (ended) allOutputs.size else random.nextInt(allOutputs.size)))
            run(job)
            assertNull(job.progress.next, "seed $seed")
            assertTrue(
                job.progress.ends.values
                    .all { it.outcome == Outcome.PASSED },
                "seed $seed",
            )
            assertTrue(allOutputs.contentEquals(outputs.readBytes()), "seed $seed")
        }
    }

    private fun run(job: JobFolder): JobFolder {
        folders += job
        val provider =
            object : RuntimeProvider {
                override val name = "fake"
                override val version = "1.2.3"

                override fun open(): Runtime = FakeRuntime(log)
            }
        val leave = Leave { code, reason -> throw AssertionError("left with $code: $reason") }
        runAttempt(job.folder, Platform(listOf(provider), ProcMachine(), FolderSync {}, leave))
        return job
    }

    private fun outputs(
        job: JobFolder,
        configuration: String,
    ): List<OutputRecord> =
        buildList {
            readOutputs(File(job.folder, "outputs/infer-$configuration.bin"), tornTail = false, ::add)
        }
}
