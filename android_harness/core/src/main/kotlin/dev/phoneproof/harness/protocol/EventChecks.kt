package dev.phoneproof.harness.protocol

/** Refuses an event of another job, or of a case, sample or round that the job does not have. */
internal fun requireFits(
    job: Job,
    stamped: StampedEvent,
) {
    fun refuse(what: String): Nothing =
        throw ProtocolException("An event $what.", "attempt ${stamped.stamp.attempt}, seq ${stamped.stamp.seq}")

    fun case(id: String): Case = job.case(id) ?: refuse("of case '${id.take(80)}', which the job does not have")

    fun requireSample(
        caseId: String,
        sample: Long,
    ) {
        val case = case(caseId)
        if (case !is Case.Infer || sample !in case.first until case.end) {
            refuse("of sample $sample, which its case does not have")
        }
    }
    when (val event = stamped.event) {
        is RunnerEvent.JobStarted -> if (event.jobId != job.id) refuse("of another job")
        is RunnerEvent.CaseStarted ->
            if (!fits(event, case(event.caseId))) refuse("with a next_sample that its case does not have")
        is RunnerEvent.SampleStarted -> requireSample(event.caseId, event.sample)
        is RunnerEvent.SampleFailed -> requireSample(event.caseId, event.sample)
        is RunnerEvent.RoundFinished ->
            if (!fits(event, case(event.caseId))) refuse("whose visits are not those of its case")
        is RunnerEvent.CaseFinished ->
            if (!fits(event, case(event.caseId))) refuse("whose output is not that of its case")
        is RunnerEvent.Heartbeat -> event.caseId?.let(::case)
        RunnerEvent.JobFinished -> Unit
    }
}

private fun fits(
    event: RunnerEvent.CaseStarted,
    case: Case,
): Boolean =
    when (case) {
        is Case.Infer -> event.nextSample != null && event.nextSample in case.first..case.end
        is Case.Load, is Case.Benchmark -> event.nextSample == null
    }

private fun fits(
    event: RunnerEvent.RoundFinished,
    case: Case,
): Boolean {
    if (case !is Case.Benchmark || event.round !in 0 until case.rounds) return false
    val pair = case.baseline != null
    val waited = event.waitedNs
    return event.order == (if (pair) Order.ABBA else Order.B) &&
        event.visitsNs.size == (if (pair) 4 else 1) &&
        (event.baselineBatch != null) == pair &&
        event.visitsNs.all { visit -> visit.isNotEmpty() && visit.all { it >= 0 } } &&
        (waited == null || waited.size == event.visitsNs.size && waited.all { it >= 0 })
}

private fun fits(
    event: RunnerEvent.CaseFinished,
    case: Case,
): Boolean {
    val keeps = case is Case.Infer && case.keep != Keep.None
    val output = event.output ?: return !keeps || event.error != null
    return keeps && output.name == outputName(case.id)
}

/** Name of a case's output file, relative to the job's folder. */
internal fun outputName(caseId: String): String = "$OUTPUTS_FOLDER/$caseId.bin"
