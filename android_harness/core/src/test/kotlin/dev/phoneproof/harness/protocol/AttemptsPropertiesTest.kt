package dev.phoneproof.harness.protocol

import kotlin.random.Random
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertTrue

/** Runners that end anywhere, with any word: every job comes to its end, and nothing is done twice. */
class AttemptsPropertiesTest {
    private val job = readJob(Golden.jobText)

    @Test
    fun `a job ends however its runners end`() {
        repeat(2_000) { seed -> endOf(Random(seed), seed) }
    }

    private fun endOf(
        random: Random,
        seed: Int,
    ) {
        val events = mutableListOf<Event>()
        var attempts = 0
        while (true) {
            val before = progressOf(job, events)
            val next = before.next ?: break
            assertTrue(next.number > attempts, "seed $seed")
            assertTrue(next.cases.none { it.caseId in before.ends }, "seed $seed")
            attempts = next.number.toInt()
            // Each interruption at a place counts for it, and each other end for the attempts: both are limited.
            assertTrue(attempts < 200, "seed $seed does not end")
            events += attempt(random, next, before.badSamples)
            val after = progressOf(job, events.shuffled(random))
            for ((id, end) in before.ends) assertEquals(end, after.ends[id], "seed $seed: $id")
        }
        val ends = progressOf(job, events).ends
        assertEquals(job.cases.map { it.id }, ends.keys.toList())
        for (case in job.cases.filterIsInstance<Case.Infer>()) {
            val samples = ends.getValue(case.id).badSamples.keys
            assertTrue(samples.all { it in case.first until case.end }, "seed $seed")
        }
    }

    /** What a runner writes until it ends somewhere, and mostly a supervisor's word. */
    private fun attempt(
        random: Random,
        next: Attempt,
        bad: Map<String, Map<Long, BadEnd>>,
    ): List<Event> {
        val written = mutableListOf<RunnerEvent>(RunnerEvent.JobStarted(job.id, emptyMap(), emptyMap()))
        for (pending in next.cases) {
            val case = checkNotNull(job.case(pending.caseId))
            written += RunnerEvent.CaseStarted(case.id, pending.nextSample)
            if (case is Case.Infer) {
                for (sample in (pending.nextSample ?: case.first) until case.end) {
                    assertFalse(sample in bad[case.id].orEmpty(), "a bad sample runs twice")
                    written += RunnerEvent.SampleStarted(case.id, sample)
                    if (random.nextInt(8) == 0) written += RunnerEvent.SampleFailed(case.id, sample, CaseError("E", ""))
                }
            }
            val error = CaseError("E", "").takeIf { random.nextInt(12) == 0 }
            val output = FileRef(outputName(case.id), "0".repeat(64), 8).takeIf { case is Case.Infer && error == null }
            written += RunnerEvent.CaseFinished(case.id, error, Measured(), output)
            if (error != null) break
        }
        val count = random.nextInt(written.size + 1)
        val own =
            written.take(count).mapIndexed { seq, event ->
                StampedEvent(Stamp(next.number, seq.toLong(), 0, 0), event)
            }
        val cause = EndCause.entries.random(random)
        val word = AttemptEnded(Stamp(next.number, next.number, 0, 0), cause, null, Confidence.HIGH)
        return if (own.isEmpty() || random.nextInt(4) > 0) own + word else own
    }
}
