package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.EndCause
import dev.phoneproof.harness.protocol.ExitCode
import dev.phoneproof.harness.protocol.Outcome
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.readOutputs
import dev.phoneproof.harness.runner.JobFolder.Companion.infer
import dev.phoneproof.harness.runner.JobFolder.Companion.load
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Timeout
import java.io.File
import java.util.concurrent.TimeUnit
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertNull
import kotlin.test.assertTrue

/** Runners that are processes of their own, and die. */
@Timeout(300)
class KilledRunnerTest {
    private val folders = mutableListOf<JobFolder>()
    private val runners = mutableListOf<Process>()

    @AfterEach
    fun clean() {
        runners.forEach { it.destroyForcibly().waitFor() }
        folders.forEach(JobFolder::delete)
    }

    @Test
    fun `a hanging runner beats on, is killed, and the next attempt goes on behind its sample`() {
        val job = folder(mapOf("hang_at" to "3"))
        val runner = start(job)
        // Its heart still beats well after the sample has begun, so the time limit alone tells a hang.
        await(runner) { beatsAfterSample(job, 3) >= 3 }
        runner.destroyForcibly().waitFor()
        job.say(1, EndCause.TIMED_OUT)
        assertEquals(ExitCode.OK, start(job).waitFor())
        val end = job.progress.ends.getValue("infer-float")
        assertEquals(Outcome.TIMED_OUT to setOf(3L), end.outcome to end.badSamples.keys)
        assertEquals(listOf(0L, 1L, 2L, 4L, 5L), samples(job))
    }

    @Test
    fun `a runner that dies in an inference costs that sample only`() {
        val job = folder(mapOf("halt_at" to "1"))
        assertEquals(139, start(job).waitFor())
        job.say(1, EndCause.EXITED, 139)
        assertEquals(ExitCode.OK, start(job).waitFor())
        assertNull(job.progress.next)
        assertEquals(
            setOf(1L),
            job.progress.ends
                .getValue("infer-float")
                .badSamples.keys,
        )
        assertEquals(listOf(0L, 2L, 3L, 4L, 5L), samples(job))
        val started = job.told.filterIsInstance<RunnerEvent.SampleStarted>().map { it.sample }
        assertEquals(listOf(0L, 1L, 2L, 3L, 4L, 5L), started)
    }

    @Test
    fun `a disk that refuses the output file blames no case`() {
        val job = folder(emptyMap())
        File(job.folder, "outputs").writeText("a file where a folder is needed")
        assertEquals(ExitCode.STORAGE, start(job).waitFor())
        assertTrue(job.told.none { it is RunnerEvent.CaseFinished && it.caseId == "infer-float" })
        job.say(1, EndCause.INTERRUPTED, 74)
        File(job.folder, "outputs").delete()
        assertEquals(ExitCode.OK, start(job).waitFor())
        assertTrue(
            job.progress.ends.values
                .all { it.outcome == Outcome.PASSED },
        )
    }

    @Test
    fun `a job that cannot be read is refused before anything is written`() {
        val job = folder(emptyMap())
        val file = File(job.folder, "job.json")
        file.writeText(file.readText().replace("\"major\":1", "\"major\":2"))
        assertEquals(ExitCode.UNREADABLE, start(job).waitFor())
        assertTrue(!File(job.folder, "events").exists())
    }

    private fun folder(options: Map<String, String>): JobFolder =
        JobFolder(listOf(load("float"), infer("float")), floatOptions = options, heartbeatMs = 20).also(folders::add)

    private fun start(job: JobFolder): Process {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val main = HarnessMain::class.java.name
        val provider = FakeProvider::class.java.name
        return ProcessBuilder(
            listOf(java, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path")) +
                listOf(main, job.folder.path, "--runtime", provider),
        ).redirectErrorStream(true).redirectOutput(File(job.folder, "log.txt")).start().also(runners::add)
    }

    private fun beatsAfterSample(
        job: JobFolder,
        sample: Long,
    ): Int {
        val told = job.told
        val begun = told.indexOfFirst { it is RunnerEvent.SampleStarted && it.sample == sample }
        return if (begun < 0) 0 else told.drop(begun).count { it is RunnerEvent.Heartbeat }
    }

    private fun await(
        runner: Process,
        condition: () -> Boolean,
    ) {
        while (!condition()) {
            assertTrue(runner.isAlive, "the runner ended by itself")
            runner.waitFor(20, TimeUnit.MILLISECONDS)
        }
    }

    private fun samples(job: JobFolder): List<Long> =
        buildList { readOutputs(File(job.folder, "outputs/infer-float.bin"), tornTail = false) { add(it.sample) } }
}
