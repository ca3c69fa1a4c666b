package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.ExitCode
import dev.phoneproof.harness.protocol.LINE_FEED
import dev.phoneproof.harness.protocol.ProtocolException
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.Stamp
import dev.phoneproof.harness.protocol.StampedEvent
import dev.phoneproof.harness.protocol.eventFile
import dev.phoneproof.harness.protocol.eventLine
import java.io.File
import java.io.FileOutputStream
import java.io.IOException

/**
 * Ends the process at once with an exit code. Not an exception: what could not be written leaves a torn line, and
 * nothing may be written after it, by no thread and by no `finally` on the way out.
 */
public fun interface Leave {
    public fun now(
        code: Int,
        reason: String,
    ): Nothing
}

/**
 * The runner's event file: one writer, each line whole, handed over in one call and mostly synced. Safe for the
 * heartbeat's thread beside the runner's. A write that the disk refuses ends the process.
 */
internal class EventLog(
    folder: File,
    private val attempt: Long,
    private val clock: Clock,
    private val leave: Leave,
) : AutoCloseable {
    private val path = eventFile(folder, attempt)
    private val file: FileOutputStream
    private var seq = 0L

    init {
        try {
            path.parentFile?.mkdirs()
            // A launch that was killed before its first whole line leaves an empty or torn file.
            if (path.exists() && LINE_FEED in path.readBytes()) {
                throw ProtocolException("The attempt has events already.", path.name)
            }
            file = FileOutputStream(path)
        } catch (error: IOException) {
            refused(error)
        }
    }

    /** Stamp and append one event. A line that is not synced outlives the process, not the machine. */
    @Synchronized
    fun write(
        event: RunnerEvent,
        sync: Boolean = true,
    ) {
        val stamp = Stamp(attempt, seq, clock.monotonicNs(), clock.wallMs())
        try {
            file.write(eventLine(StampedEvent(stamp, event)))
            if (sync) file.fd.sync()
        } catch (error: IOException) {
            refused(error)
        }
        seq += 1
    }

    @Synchronized
    override fun close() {
        file.close()
    }

    private fun refused(error: IOException): Nothing =
        leave.now(ExitCode.STORAGE, "${path.name} cannot be written: ${error.message}")
}
