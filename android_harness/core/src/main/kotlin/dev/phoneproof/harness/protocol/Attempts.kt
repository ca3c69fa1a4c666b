package dev.phoneproof.harness.protocol

/** How a case or sample ended. */
public enum class Outcome(
    override val word: String,
) : Word {
    PASSED("passed"),
    FAILED("failed"),
    CRASHED("crashed"),
    KILLED_LOW_MEMORY("killed_low_memory"),
    TIMED_OUT("timed_out"),
    NOT_RUN("not_run"),
}

/**
 * Why something ended badly. [cause] is `error`, the word of an [EndCause], or for not_run one of `load`, `start`,
 * `attempts`, `bad_samples`, `not_reached`.
 */
public data class BadEnd(
    val outcome: Outcome,
    val cause: String,
    val confidence: Confidence,
    val code: Long? = null,
    val error: CaseError? = null,
    val attempt: Long? = null,
)

/**
 * The end of a case. It is final: later events change nothing but [finished], which says whether the runner came
 * to the case's end.
 */
public data class CaseEnd(
    val outcome: Outcome,
    val bad: BadEnd?,
    val badSamples: Map<Long, BadEnd>,
    val finished: Boolean,
)

/** A case that a next attempt has to run; [nextSample] is where an infer case goes on. */
public data class PendingCase(
    val caseId: String,
    val nextSample: Long?,
)

/** A next launch of the runner. */
public data class Attempt(
    val number: Long,
    val cases: List<PendingCase>,
)

/** What the events of a job mean (PROTOCOL.md, section 7); all of its parts come from one reading. */
public data class Progress(
    val ends: Map<String, CaseEnd>,
    val badSamples: Map<String, Map<Long, BadEnd>>,
    val next: Attempt?,
)

/**
 * What the next launch has to do, or null when every case has its end. Asked only while no runner runs.
 *
 * A pure rule, the same in all languages: protocol/golden/attempts has a folder for each situation.
 *
 * @param events of all files, in any order.
 * @throws ProtocolException for an event that does not fit the job.
 */
public fun nextAttempt(
    job: Job,
    events: Iterable<Event>,
): Attempt? = progressOf(job, events).next

/** [nextAttempt] with what it rests on. */
public fun progressOf(
    job: Job,
    events: Iterable<Event>,
): Progress {
    val fold = AttemptFold(job)
    val byAttempt = events.groupBy { it.stamp.attempt }.toSortedMap()
    byAttempt.values
        .flatten()
        .filterIsInstance<StampedEvent>()
        .forEach { requireFits(job, it) }
    for ((number, ofAttempt) in byAttempt) {
        val own = ofAttempt.filterIsInstance<StampedEvent>().sortedBy { it.stamp.seq }
        val word = ofAttempt.filterIsInstance<AttemptEnded>().minByOrNull { it.stamp.seq }
        fold.attempt(number, own, word)
    }
    return fold.progress()
}

/** Where an attempt is: in a case, or at a sample of it. Between cases there is no place. */
private data class Place(
    val case: Case,
    val sample: Long?,
)

/** State while the attempts are read, in order. */
private class AttemptFold(
    private val job: Job,
) {
    private val ends = mutableMapOf<String, CaseEnd>()
    private val begun = mutableSetOf<String>()
    private val nextSample = mutableMapOf<String, Long>()
    private val badSamples = mutableMapOf<String, MutableMap<Long, BadEnd>>()
    private val interruptions = mutableMapOf<Place, Long>()
    private var place: Place? = null
    private var attempts = 0L
    private var blamedAttempts = 0L
    private var startFailures = 0L
    private var gaveUp: String? = null

    fun attempt(
        number: Long,
        events: List<StampedEvent>,
        word: AttemptEnded?,
    ) {
        attempts = number
        place = null
        events.forEach(::event)
        if (ends.size < job.cases.size) end(word)
        endUnreachable()
    }

    fun progress(): Progress {
        val left =
            job.cases.filter { it.id !in ends }.map { case ->
                PendingCase(case.id, (case as? Case.Infer)?.let { nextSample[it.id] ?: it.first })
            }
        val inOrder = job.cases.mapNotNull { case -> ends[case.id]?.let { case.id to it } }.toMap()
        return Progress(inOrder, badSamples, if (left.isEmpty()) null else Attempt(attempts + 1, left))
    }

    private fun event(stamped: StampedEvent) {
        when (val event = stamped.event) {
            is RunnerEvent.CaseStarted -> {
                place = Place(case(event.caseId), null)
                begun += event.caseId
            }
            is RunnerEvent.SampleStarted -> {
                place = Place(case(event.caseId), event.sample)
                nextSample[event.caseId] = event.sample
            }
            is RunnerEvent.SampleFailed -> addBadSample(case(event.caseId), event.sample, failed(event.error))
            is RunnerEvent.CaseFinished -> {
                finish(case(event.caseId), event)
                place = null
                startFailures = 0
            }
            is RunnerEvent.JobStarted, is RunnerEvent.RoundFinished -> Unit
            is RunnerEvent.Heartbeat, RunnerEvent.JobFinished -> Unit
        }
    }

    private fun case(id: String): Case = checkNotNull(job.case(id)) { "the events were checked against the job" }

    private fun failed(error: CaseError) = BadEnd(Outcome.FAILED, "error", Confidence.HIGH, null, error, attempts)

    private fun finish(
        case: Case,
        event: RunnerEvent.CaseFinished,
    ) {
        if (event.error != null) {
            endBadly(case, failed(event.error), "not_reached")
        } else if (case.id !in ends) {
            val bad = badSamples[case.id].orEmpty()
            val first = lowest(bad)
            ends[case.id] = CaseEnd(first?.outcome ?: Outcome.PASSED, first, bad.toMap(), finished = true)
        }
        ends[case.id]?.let { ends[case.id] = it.copy(finished = true) }
    }

    /** [rest]: why the later samples of a case that was begun did not run. */
    private fun endBadly(
        case: Case,
        bad: BadEnd,
        rest: String,
    ) {
        if (case.id in ends) return
        val samples = badSamples[case.id].orEmpty().toMutableMap()
        if (case is Case.Infer && case.id in begun) {
            val notRun = BadEnd(Outcome.NOT_RUN, rest, Confidence.HIGH)
            for (sample in (nextSample[case.id] ?: case.first) until case.end) samples.getOrPut(sample) { notRun }
        }
        ends[case.id] = CaseEnd(bad.outcome, bad, samples, finished = false)
    }

    private fun addBadSample(
        case: Case,
        sample: Long,
        bad: BadEnd,
    ) {
        val samples = badSamples.getOrPut(case.id) { mutableMapOf() }
        samples[sample] = bad
        nextSample[case.id] = sample + 1
        startFailures = 0
        if (samples.size >= job.limits.badSamplesPerCase) endBadly(case, lowest(samples) ?: bad, "bad_samples")
    }

    private fun end(word: AttemptEnded?) {
        val at = place?.takeIf { it.case.id !in ends }
        if (word == null || word.cause == EndCause.INTERRUPTED) {
            at?.let(::interrupt)
            return
        }
        blamedAttempts += 1
        if (at == null) {
            startFailures += 1
            if (startFailures >= job.limits.startFailures) gaveUp = "start"
        } else {
            startFailures = 0
            blame(at, badEnd(word))
        }
        if (blamedAttempts >= job.limits.maxAttempts && gaveUp == null) gaveUp = "attempts"
    }

    private fun interrupt(at: Place) {
        val times = (interruptions[at] ?: 0) + 1
        interruptions[at] = times
        if (times >= job.limits.interruptionsAtOnePlace) {
            val cause = EndCause.INTERRUPTED.word
            blame(at, BadEnd(Outcome.CRASHED, cause, Confidence.LOW, attempt = attempts))
        }
    }

    private fun badEnd(word: AttemptEnded): BadEnd {
        val outcome =
            when (word.cause) {
                EndCause.TIMED_OUT -> Outcome.TIMED_OUT
                EndCause.LOW_MEMORY -> Outcome.KILLED_LOW_MEMORY
                else -> Outcome.CRASHED
            }
        return BadEnd(outcome, word.cause.word, word.confidence, word.code, attempt = word.stamp.attempt)
    }

    private fun blame(
        at: Place,
        bad: BadEnd,
    ) {
        if (at.sample == null) endBadly(at.case, bad, "not_reached") else addBadSample(at.case, at.sample, bad)
    }

    /** Cases that never run: of a configuration that does not load, or after the last attempt. */
    private fun endUnreachable() {
        val unloadable =
            job.cases
                .filterIsInstance<Case.Load>()
                .filter { case ->
                    ends[case.id].let { it != null && it.outcome != Outcome.PASSED }
                }.map { it.configuration }
                .toSet()
        for (case in job.cases) {
            val cause = if (case.configurations.any { it in unloadable }) "load" else gaveUp
            if (cause != null) {
                val first = lowest(badSamples[case.id].orEmpty())
                endBadly(case, first ?: BadEnd(Outcome.NOT_RUN, cause, Confidence.HIGH), cause)
            }
        }
    }

    private fun lowest(samples: Map<Long, BadEnd>): BadEnd? = samples.minByOrNull { it.key }?.value
}
