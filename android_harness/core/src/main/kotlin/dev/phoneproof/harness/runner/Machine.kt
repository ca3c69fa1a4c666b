package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.Json
import java.io.File
import java.io.IOException

/** What a device tells about itself and about this process; null is what it does not tell. */
public interface Machine {
    /** Facts for job_started: text, numbers, truths or null. */
    public fun environment(): Map<String, Json>

    /** Resident memory of this process. */
    public fun residentBytes(): Long?

    /** What the living threads of this process have done. */
    public fun threads(): Map<Long, ThreadTimes>?
}

/** How long a thread has computed, and how long it could have and waited for a processor, since it began. */
public data class ThreadTimes(
    val ranNs: Long,
    val waitedNs: Long,
)

/**
 * What threads waited between two readings, summed; null if one of them is. A thread that began in between counts
 * from its beginning, one that ended does not count.
 */
public fun waitedNs(
    before: Map<Long, ThreadTimes>?,
    after: Map<Long, ThreadTimes>?,
): Long? {
    if (before == null || after == null) return null
    return after.entries.sumOf { (id, times) -> maxOf(0, times.waitedNs - (before[id]?.waitedNs ?: 0)) }
}

/** The clocks; a seam for tests. */
public interface Clock {
    public fun monotonicNs(): Long

    public fun wallMs(): Long

    public fun sleepMs(ms: Long)

    /** The clocks of Java. nanoTime is CLOCK_MONOTONIC on Linux and Android: comparable within one boot. */
    public object System : Clock {
        override fun monotonicNs(): Long = java.lang.System.nanoTime()

        override fun wallMs(): Long = java.lang.System.currentTimeMillis()

        override fun sleepMs(ms: Long) {
            Thread.sleep(ms)
        }
    }
}

/**
 * Smallest positive difference between successive readings of the clock, in ns: the greater of its resolution and
 * of what a reading takes. Null for a clock that does not advance in a million readings.
 */
public fun clockResolutionNs(clock: Clock): Long? {
    var smallest: Long? = null
    var found = 0
    var readings = 0
    var before = clock.monotonicNs()
    while (found < RESOLUTION_STEPS && (found > 0 || readings < MOST_READINGS)) {
        val now = clock.monotonicNs()
        readings += 1
        if (now > before) {
            smallest = minOf(now - before, smallest ?: Long.MAX_VALUE)
            found += 1
        }
        before = now
    }
    return smallest
}

private const val RESOLUTION_STEPS = 1_000
private const val MOST_READINGS = 1_000_000

/** Linux as /proc tells it. On Android an app may read all of this of its own process. */
public class ProcMachine(
    private val proc: File = File("/proc"),
) : Machine {
    override fun environment(): Map<String, Json> {
        fun text(value: String?): Json = value?.let(Json::Text) ?: Json.Null

        fun whole(value: Long?): Json = value?.let(Json::Whole) ?: Json.Null
        return mapOf(
            "os" to text("${property("os.name")} ${property("os.version")}"),
            "machine" to text(property("os.arch")),
            "cpu" to text(colonValue(File(proc, "cpuinfo"), "model name")),
            "cpu_count" to
                whole(
                    java.lang.Runtime
                        .getRuntime()
                        .availableProcessors()
                        .toLong(),
                ),
            "memory_bytes" to whole(kilobytes(File(proc, "meminfo"), "MemTotal")),
            "cpu_frequency_khz" to whole(read(File(CURRENT_FREQUENCY))?.trim()?.toLongOrNull()),
            "thermal" to Json.Null,
            "battery" to Json.Null,
            "java" to text(property("java.version")),
        )
    }

    override fun residentBytes(): Long? = kilobytes(File(proc, "self/status"), "VmRSS")

    /**
     * From schedstat of each thread: ns it ran, ns it waited, slices (Documentation/scheduler/sched-stats.rst). A
     * kernel without this accounting writes zeros, and that a thread which reads them never ran is not true.
     */
    override fun threads(): Map<Long, ThreadTimes>? {
        val tasks = File(proc, "self/task").listFiles() ?: return null
        var slices = 0L
        val found = mutableMapOf<Long, ThreadTimes>()
        for (task in tasks) {
            val text = read(File(task, "schedstat"))
            if (text == null) {
                if (task.exists()) return null
                continue // It ended in between.
            }
            val numbers = text.trim().split(' ').map { it.toLongOrNull() ?: return null }
            val id = task.name.toLongOrNull()
            if (id == null || numbers.size != 3) return null
            found[id] = ThreadTimes(numbers[0], numbers[1])
            slices += numbers[2]
        }
        return found.takeIf { slices > 0 }
    }

    private fun property(name: String): String? = java.lang.System.getProperty(name)

    private fun kilobytes(
        file: File,
        key: String,
    ): Long? = colonValue(file, key)?.substringBefore(' ')?.toLongOrNull()?.times(1024)

    private fun colonValue(
        file: File,
        key: String,
    ): String? =
        read(file)
            ?.lineSequence()
            ?.firstOrNull { it.substringBefore(':').trim() == key }
            ?.substringAfter(':')
            ?.trim()

    private fun read(file: File): String? =
        try {
            file.readText()
        } catch (_: IOException) {
            null
        }

    private companion object {
        const val CURRENT_FREQUENCY = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
    }
}
