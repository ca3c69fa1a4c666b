package dev.phoneproof.harness.protocol

/** The event as one line of JSON with its line feed, in UTF-8. */
public fun eventLine(event: Event): ByteArray = "${Json.Obj(encoded(event)).compact()}\n".toByteArray(Charsets.UTF_8)

/** The event that one parsed line stands for; [ProtocolException] for a line that is none. */
internal fun decodeEvent(
    content: Json,
    place: String,
): Event {
    val name = ((content as? Json.Obj)?.entries?.get("event") as? Json.Text)?.value
    if (name == "job_started") requireVersion(content, place)
    return fields(content, place) {
        text("event")
        val stamp = inner("stamp", ::stamp)
        if (name == "attempt_ended") attemptEnded(this, stamp) else StampedEvent(stamp, runnerEvent(this, name))
    }
}

private fun stamp(
    value: Json,
    place: String,
): Stamp =
    fields(value, place) {
        Stamp(whole("attempt", least = 1), whole("seq", least = 0), whole("monotonic_ns"), whole("wall_ms"))
    }

private fun attemptEnded(
    fields: Fields,
    stamp: Stamp,
): AttemptEnded =
    AttemptEnded(
        stamp = stamp,
        cause = fields.word("cause"),
        code = fields.wholeOrNull("code"),
        confidence = fields.word("confidence"),
        facts = fields.map("facts", factItem),
        logTail = fields.list("log_tail", textItem),
    )

private fun runnerEvent(
    fields: Fields,
    name: String?,
): RunnerEvent =
    when (name) {
        "job_started" -> {
            fields.inner("protocol", versionItem)
            RunnerEvent.JobStarted(
                fields.text("job_id"),
                fields.map("environment", factItem),
                fields.map("runtimes", textItem),
            )
        }
        "case_started" -> RunnerEvent.CaseStarted(fields.text("case_id"), fields.wholeOrNull("next_sample"))
        "sample_started" -> RunnerEvent.SampleStarted(fields.text("case_id"), fields.whole("sample"))
        "sample_failed" ->
            RunnerEvent.SampleFailed(fields.text("case_id"), fields.whole("sample"), fields.inner("error", ::caseError))
        "round_finished" -> roundFinished(fields)
        "case_finished" -> caseFinished(fields)
        "heartbeat" ->
            RunnerEvent.Heartbeat(fields.textOrNull("case_id"), fields.wholeOrNull("memory_bytes", least = 0))
        "job_finished" -> RunnerEvent.JobFinished
        else -> throw wrong("an event", fields.at("event"))
    }

private fun roundFinished(fields: Fields): RunnerEvent.RoundFinished =
    RunnerEvent.RoundFinished(
        caseId = fields.text("case_id"),
        round = fields.whole("round"),
        order = fields.word("order"),
        baselineBatch = fields.wholeOrNull("baseline_batch", least = 1),
        candidateBatch = fields.whole("candidate_batch", least = 1),
        visitsNs =
            fields.list("visits_ns") { value, place ->
                (value as? Json.Arr ?: throw wrong("a list", place)).items.map { wholeItem(it, place) }
            },
        waitedNs = fields.listOrNull("waited_ns", wholeItem),
    )

private fun caseFinished(fields: Fields): RunnerEvent.CaseFinished {
    val passed =
        when (fields.text("outcome")) {
            "passed" -> true
            "failed" -> false
            else -> throw wrong("passed or failed", fields.at("outcome"))
        }
    val error = fields.innerOrNull("error", ::caseError)
    if (passed != (error == null)) {
        throw ProtocolException("Outcome and error contradict each other.", fields.at("outcome"))
    }
    return RunnerEvent.CaseFinished(
        caseId = fields.text("case_id"),
        error = error,
        measured = fields.inner("measured", ::measured),
        output = fields.innerOrNull("output", fileItem),
    )
}

private fun caseError(
    value: Json,
    place: String,
): CaseError = fields(value, place) { CaseError(text("type"), text("message")) }

private fun measured(
    value: Json,
    place: String,
): Measured =
    fields(value, place) {
        Measured(
            loadMs = numberOrNull("load_ms"),
            firstMs = numberOrNull("first_ms"),
            baselineFirstMs = numberOrNull("baseline_first_ms"),
            peakMemoryBytes = wholeOrNull("peak_memory_bytes", least = 0),
            acceleratorActual = textOrNull("accelerator_actual"),
            operators = mapOrNull("operators", wholeItem),
            clockResolutionNs = wholeOrNull("clock_resolution_ns", least = 0),
        )
    }

private fun encoded(event: Event): Map<String, Json> =
    when (event) {
        is StampedEvent -> encoded(event.event, encoded(event.stamp))
        is AttemptEnded ->
            mapOf(
                "event" to Json.Text("attempt_ended"),
                "stamp" to encoded(event.stamp),
                "cause" to Json.Text(event.cause.word),
                "code" to whole(event.code),
                "confidence" to Json.Text(event.confidence.word),
                "facts" to Json.Obj(event.facts),
                "log_tail" to Json.Arr(event.logTail.map(Json::Text)),
            )
    }

private fun encoded(stamp: Stamp): Json =
    Json.Obj(
        mapOf(
            "attempt" to Json.Whole(stamp.attempt),
            "seq" to Json.Whole(stamp.seq),
            "monotonic_ns" to Json.Whole(stamp.monotonicNs),
            "wall_ms" to Json.Whole(stamp.wallMs),
        ),
    )

private fun encoded(
    event: RunnerEvent,
    stamp: Json,
): Map<String, Json> {
    fun line(
        name: String,
        vararg rest: Pair<String, Json>,
    ) = mapOf("event" to Json.Text(name), "stamp" to stamp, *rest)
    return when (event) {
        is RunnerEvent.JobStarted ->
            line(
                "job_started",
                "protocol" to
                    Json.Obj(mapOf("major" to Json.Whole(PROTOCOL_MAJOR), "minor" to Json.Whole(PROTOCOL_MINOR))),
                "job_id" to Json.Text(event.jobId),
                "environment" to Json.Obj(event.environment),
                "runtimes" to Json.Obj(event.runtimes.mapValues { Json.Text(it.value) }),
            )
        is RunnerEvent.CaseStarted ->
            line("case_started", "case_id" to Json.Text(event.caseId), "next_sample" to whole(event.nextSample))
        is RunnerEvent.SampleStarted ->
            line("sample_started", "case_id" to Json.Text(event.caseId), "sample" to Json.Whole(event.sample))
        is RunnerEvent.SampleFailed ->
            line(
                "sample_failed",
                "case_id" to Json.Text(event.caseId),
                "sample" to Json.Whole(event.sample),
                "error" to encoded(event.error),
            )
        is RunnerEvent.RoundFinished ->
            line(
                "round_finished",
                "case_id" to Json.Text(event.caseId),
                "round" to Json.Whole(event.round),
                "order" to Json.Text(event.order.word),
                "baseline_batch" to whole(event.baselineBatch),
                "candidate_batch" to Json.Whole(event.candidateBatch),
                "visits_ns" to Json.Arr(event.visitsNs.map(::wholes)),
                "waited_ns" to (event.waitedNs?.let(::wholes) ?: Json.Null),
            )
        is RunnerEvent.CaseFinished ->
            line(
                "case_finished",
                "case_id" to Json.Text(event.caseId),
                "outcome" to Json.Text(if (event.error == null) "passed" else "failed"),
                "error" to (event.error?.let(::encoded) ?: Json.Null),
                "measured" to encoded(event.measured),
                "output" to (event.output?.let(::encoded) ?: Json.Null),
            )
        is RunnerEvent.Heartbeat ->
            line("heartbeat", "case_id" to text(event.caseId), "memory_bytes" to whole(event.memoryBytes))
        RunnerEvent.JobFinished -> line("job_finished")
    }
}

internal fun encoded(error: CaseError): Json =
    Json.Obj(
        mapOf(
            "type" to Json.Text(error.type),
            "message" to Json.Text(error.message),
        ),
    )

private fun encoded(file: FileRef): Json =
    Json.Obj(
        mapOf(
            "name" to Json.Text(file.name),
            "sha256" to Json.Text(file.sha256),
            "size_bytes" to Json.Whole(file.sizeBytes),
        ),
    )

private fun encoded(measured: Measured): Json =
    Json.Obj(
        mapOf(
            "load_ms" to fraction(measured.loadMs),
            "first_ms" to fraction(measured.firstMs),
            "baseline_first_ms" to fraction(measured.baselineFirstMs),
            "peak_memory_bytes" to whole(measured.peakMemoryBytes),
            "accelerator_actual" to text(measured.acceleratorActual),
            "operators" to (measured.operators?.let(::counts) ?: Json.Null),
            "clock_resolution_ns" to whole(measured.clockResolutionNs),
        ),
    )

private fun whole(value: Long?): Json = value?.let(Json::Whole) ?: Json.Null

private fun fraction(value: Double?): Json = value?.let(Json::Fraction) ?: Json.Null

private fun text(value: String?): Json = value?.let(Json::Text) ?: Json.Null

private fun counts(values: Map<String, Long>): Json = Json.Obj(values.mapValues { Json.Whole(it.value) })

private fun wholes(values: List<Long>): Json = Json.Arr(values.map(Json::Whole))
