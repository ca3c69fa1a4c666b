package dev.phoneproof.harness.protocol

import java.io.File

public const val EVENTS_FOLDER: String = "events"
public const val ATTEMPTS_FILE: String = "attempts.jsonl"
public const val OUTPUTS_FOLDER: String = "outputs"

/** Where the runner of an attempt writes its events, in the job's folder. */
public fun eventFile(
    folder: File,
    attempt: Long,
): File = File(File(folder, EVENTS_FOLDER), "${attempt.toString().padStart(4, '0')}.jsonl")

/**
 * All events of the job in [folder], in no certain order; none if no attempt was begun.
 *
 * @throws ProtocolException for a whole line that is no event, and for a file whose events are not those of its
 *   one writer. A torn last line is left out.
 */
public fun readEvents(folder: File): List<Event> {
    val runners =
        File(folder, EVENTS_FOLDER).listFiles { file -> file.name.endsWith(".jsonl") }.orEmpty().flatMap { file ->
            val stem = file.name.removeSuffix(".jsonl")
            val attempt = stem.toLongOrNull()
            if (attempt == null || attempt < 0 || file != eventFile(folder, attempt)) {
                throw ProtocolException("An event file is named after its attempt.", file.name)
            }
            parseEventFile(file.readBytes(), file.name, attempt)
        }
    val words = File(folder, ATTEMPTS_FILE)
    return if (words.exists()) runners + parseEventFile(words.readBytes(), words.name, null) else runners
}

/**
 * The events of one file from its beginning: of the runner of [attempt], or with null the supervisor's.
 *
 * Bytes behind the last line feed are torn and left out.
 */
public fun parseEventFile(
    bytes: ByteArray,
    where: String,
    attempt: Long?,
): List<Event> =
    wholeLines(bytes).mapIndexed { index, line ->
        val place = "$where:${index + 1}"
        decodeEvent(parseJson(line, place), place).also { requirePlace(it, index, attempt, place) }
    }

private fun requirePlace(
    event: Event,
    index: Int,
    attempt: Long?,
    place: String,
) {
    fun refuse(what: String): Nothing = throw ProtocolException(what, place)
    if (event.stamp.seq != index.toLong()) refuse("Expected seq $index, found ${event.stamp.seq}.")
    if ((event is AttemptEnded) != (attempt == null)) refuse("An event that does not belong into this file.")
    if (attempt != null && event.stamp.attempt != attempt) {
        refuse("Expected attempt $attempt, found ${event.stamp.attempt}.")
    }
    val begins = event is StampedEvent && event.event is RunnerEvent.JobStarted
    if (attempt != null && begins != (index == 0)) {
        refuse("A runner's file begins with job_started, and has it once.")
    }
}

private fun wholeLines(bytes: ByteArray): List<ByteArray> {
    val lines = mutableListOf<ByteArray>()
    var begin = 0
    for (index in bytes.indices) {
        if (bytes[index] == LINE_FEED) {
            lines += bytes.copyOfRange(begin, index)
            begin = index + 1
        }
    }
    return lines
}

internal const val LINE_FEED: Byte = '\n'.code.toByte()
