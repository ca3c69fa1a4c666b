package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.Case
import dev.phoneproof.harness.protocol.CaseError
import dev.phoneproof.harness.protocol.Job
import dev.phoneproof.harness.protocol.Measured
import dev.phoneproof.harness.protocol.PendingCase
import dev.phoneproof.harness.protocol.ProtocolException
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.progressOf
import dev.phoneproof.harness.protocol.readEvents
import dev.phoneproof.harness.protocol.readJob
import java.io.File
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/**
 * One attempt at the job in [folder]: every case that the rule of attempts leaves, in order. Raw results only; no
 * metric is computed on a device.
 *
 * @throws ProtocolException if the job or its earlier events cannot be read.
 */
public fun runAttempt(
    folder: File,
    platform: Platform,
) {
    val job = readJob(File(folder, "job.json").readBytes())
    val progress = progressOf(job, readEvents(folder))
    val next = progress.next ?: return
    EventLog(folder, next.number, platform.clock, platform.leave).use { log ->
        val attempt = CurrentAttempt(job, folder, platform, log)
        log.write(RunnerEvent.JobStarted(job.id, platform.machine.environment(), runtimeVersions(job, platform)))
        val stopHeartbeat = startHeartbeat(attempt)
        val notLoaded = mutableSetOf<String>()
        for (pending in next.cases) {
            val case = checkNotNull(job.case(pending.caseId)) { "the rule names cases of the job" }
            if (case.configurations.any { it in notLoaded }) continue
            // Closed between cases, so that a crash of one configuration's close is not the next one's crash.
            attempt.unload(except = case.configurations)
            val passed = runCase(attempt, case, pending, progress.badSamples[case.id].orEmpty().keys)
            if (case is Case.Load && !passed) notLoaded += case.configuration
        }
        attempt.close()
        stopHeartbeat()
        log.write(RunnerEvent.JobFinished)
    }
}

/** One case from its start event to its end event; whether it passed. */
private fun runCase(
    attempt: CurrentAttempt,
    case: Case,
    pending: PendingCase,
    bad: Set<Long>,
): Boolean {
    attempt.openCase = case.id
    attempt.log.write(RunnerEvent.CaseStarted(case.id, pending.nextSample))
    var error: CaseError? = null
    val done =
        try {
            execute(attempt, case, pending, bad)
        } catch (thrown: Throwable) {
            // Errors too: a library that is missing is an UnsatisfiedLinkError, and it is the case's outcome.
            error = caseError(thrown)
            Done(Measured())
        }
    attempt.log.write(RunnerEvent.CaseFinished(case.id, error, done.measured, done.output))
    attempt.openCase = null
    return error == null
}

private fun execute(
    attempt: CurrentAttempt,
    case: Case,
    pending: PendingCase,
    bad: Set<Long>,
): Done =
    when (case) {
        is Case.Load -> Done(attempt.loaded(case.configuration).measured())
        is Case.Infer -> InferCase(attempt, case, pending.nextSample ?: case.first, bad).run()
        is Case.Benchmark -> BenchmarkCase(attempt, case).run()
    }

/** Versions of the runtimes that the job names and this harness has, as far as they tell unopened. */
private fun runtimeVersions(
    job: Job,
    platform: Platform,
): Map<String, String> =
    job.configurations
        .map { it.runtime }
        .toSortedSet()
        .mapNotNull { name -> platform.runtimes[name]?.version?.let { name to it } }
        .toMap()

/** Write a heartbeat now and then, until the function that is returned is called. */
private fun startHeartbeat(attempt: CurrentAttempt): () -> Unit {
    val stop = CountDownLatch(1)
    val beating =
        thread(isDaemon = true, name = "heartbeat") {
            while (!stop.await(attempt.job.limits.heartbeatMs, TimeUnit.MILLISECONDS)) {
                val beat = RunnerEvent.Heartbeat(attempt.openCase, attempt.platform.machine.residentBytes())
                attempt.log.write(beat, sync = false)
            }
        }
    return {
        stop.countDown()
        beating.join()
    }
}
