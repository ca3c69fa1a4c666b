package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.Case
import dev.phoneproof.harness.protocol.CaseError
import dev.phoneproof.harness.protocol.ExitCode
import dev.phoneproof.harness.protocol.Keep
import dev.phoneproof.harness.protocol.Measured
import dev.phoneproof.harness.protocol.OutputWriter
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.StorageException
import dev.phoneproof.harness.protocol.Tensor
import dev.phoneproof.harness.protocol.applyKeep
import dev.phoneproof.harness.protocol.missingSamples
import dev.phoneproof.harness.protocol.outputName
import java.io.File
import java.io.IOException

/**
 * Runs an infer case from [nextSample] on. Samples in [bad] have failed before and do not run again.
 *
 * It stops where too many samples are bad: the rule of attempts has then ended the case.
 */
internal class InferCase(
    private val attempt: CurrentAttempt,
    private val case: Case.Infer,
    private val nextSample: Long,
    private val bad: Set<Long>,
) {
    fun run(): Done {
        if (case.keep == Keep.None) return Done(runFrom(nextSample, null))
        val path = File(attempt.folder, outputName(case.id))
        val first = orLeave { resumeAt(path) }
        return orLeave { OutputWriter(path, first, attempt.platform.folderSync) }.use { writer ->
            val measured = runFrom(first, writer)
            Done(measured, orLeave(writer::finish))
        }
    }

    /**
     * Where file and case go on: at the first record that is missing, or that a bad sample has. A runner that is
     * ended a moment after a sample is blamed for it has written its record already.
     */
    private fun resumeAt(path: File): Long {
        if (path.parentFile?.isDirectory == false) path.parentFile?.mkdirs()
        val without = missingSamples(path, case.first, nextSample)
        val badWithRecord = bad.filter { it < nextSample && it !in without }
        return ((without - bad) + badWithRecord + nextSample).min()
    }

    /** Nothing is loaded where no sample is left: then only the file was not closed. */
    private fun runFrom(
        first: Long,
        writer: OutputWriter?,
    ): Measured {
        val left = (first until case.end).filter { it !in bad }
        if (left.isEmpty()) return Measured()
        val loaded = attempt.loaded(case.configuration)
        val reader = attempt.reader(case.samples)
        var failed = bad.size
        for (sample in left) {
            attempt.log.write(RunnerEvent.SampleStarted(case.id, sample), sync = false)
            val error = runSample(sample, writer) { loaded.session.prepare(reader.read(sample)) }
            if (error != null) {
                attempt.log.write(RunnerEvent.SampleFailed(case.id, sample, error))
                failed += 1
                if (failed >= attempt.job.limits.badSamplesPerCase) break
            }
        }
        return loaded.measured()
    }

    /** A runtime may throw anything, OutOfMemoryError included; it is the sample's outcome. */
    private fun runSample(
        sample: Long,
        writer: OutputWriter?,
        prepare: () -> Invocation,
    ): CaseError? {
        val kept: List<Tensor>
        try {
            val invocation = prepare()
            invocation.run()
            kept = applyKeep(case.keep, invocation.outputs())
        } catch (thrown: Throwable) {
            return caseError(thrown)
        }
        return try {
            writer?.append(sample, kept)
            null
        } catch (error: StorageException) {
            leave(error)
        } catch (thrown: Throwable) {
            caseError(thrown)
        }
    }

    private inline fun <T> orLeave(act: () -> T): T =
        try {
            act()
        } catch (error: IOException) {
            leave(error)
        }

    private fun leave(error: IOException): Nothing =
        attempt.platform.leave.now(ExitCode.STORAGE, error.message ?: "the disk refused an output file")
}
