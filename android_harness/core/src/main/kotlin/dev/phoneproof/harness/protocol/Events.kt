package dev.phoneproof.harness.protocol

/**
 * When an event was written. [seq] counts from 0 in each file, [monotonicNs] is comparable within one boot,
 * [wallMs] counts since 1970.
 */
public data class Stamp(
    val attempt: Long,
    val seq: Long,
    val monotonicNs: Long,
    val wallMs: Long,
)

/** An error that the runtime reported and survived. */
public data class CaseError(
    val type: String,
    val message: String,
)

/** What was measured besides run times; null is what the device or runtime does not tell. */
public data class Measured(
    val loadMs: Double? = null,
    val firstMs: Double? = null,
    val baselineFirstMs: Double? = null,
    val peakMemoryBytes: Long? = null,
    val acceleratorActual: String? = null,
    val operators: Map<String, Long>? = null,
    val clockResolutionNs: Long? = null,
)

public enum class Confidence(
    override val word: String,
) : Word {
    HIGH("high"),
    MEDIUM("medium"),
    LOW("low"),
}

/** How a runner ended, as the supervisor says. */
public enum class EndCause(
    override val word: String,
) : Word {
    EXITED("exited"),
    SIGNAL("signal"),
    TIMED_OUT("timed_out"),
    LOW_MEMORY("low_memory"),
    INTERRUPTED("interrupted"),
    PROTOCOL("protocol"),
    UNKNOWN("unknown"),
}

/** One line of events/NNNN.jsonl or attempts.jsonl. */
public sealed interface Event {
    public val stamp: Stamp
}

/** What a runner writes of what happens. It has no stamp until it is written: see [StampedEvent]. */
public sealed interface RunnerEvent {
    /** A runner began an attempt. */
    public data class JobStarted(
        val jobId: String,
        val environment: Map<String, Json>,
        val runtimes: Map<String, String>,
    ) : RunnerEvent

    /** Written and synced before a case. [nextSample]: where an infer case begins or resumes, else null. */
    public data class CaseStarted(
        val caseId: String,
        val nextSample: Long?,
    ) : RunnerEvent

    /** Before each sample: the outputs of all earlier ones are written. */
    public data class SampleStarted(
        val caseId: String,
        val sample: Long,
    ) : RunnerEvent

    /** The runtime refused one sample; the case goes on. */
    public data class SampleFailed(
        val caseId: String,
        val sample: Long,
        val error: CaseError,
    ) : RunnerEvent

    /** Each timed batch of a round in ns, by visit, in the order they ran. */
    public data class RoundFinished(
        val caseId: String,
        val round: Long,
        val order: Order,
        val baselineBatch: Long?,
        val candidateBatch: Long,
        val visitsNs: List<List<Long>>,
        val waitedNs: List<Long>?,
    ) : RunnerEvent

    /** A case came to its end in this process: passed, or failed with [error]. */
    public data class CaseFinished(
        val caseId: String,
        val error: CaseError?,
        val measured: Measured,
        val output: FileRef?,
    ) : RunnerEvent

    /** The runner lives; [caseId] is the case under way. */
    public data class Heartbeat(
        val caseId: String?,
        val memoryBytes: Long?,
    ) : RunnerEvent

    /** No case is left. */
    public data object JobFinished : RunnerEvent
}

public enum class Order(
    override val word: String,
) : Word {
    ABBA("ABBA"),
    B("B"),
}

/** A runner's event as it was written. */
public data class StampedEvent(
    override val stamp: Stamp,
    val event: RunnerEvent,
) : Event

/** The supervisor's word on how a runner ended. */
public data class AttemptEnded(
    override val stamp: Stamp,
    val cause: EndCause,
    val code: Long?,
    val confidence: Confidence,
    val facts: Map<String, Json> = emptyMap(),
    val logTail: List<String> = emptyList(),
) : Event
