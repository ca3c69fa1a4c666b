package dev.phoneproof.harness.protocol

private const val WHERE = "job.json"

/**
 * Reads job.json. Versions are compared before anything else is looked at.
 *
 * Each key has to be there and known, and the job has to have the digest that it names.
 *
 * @throws ProtocolException naming the place of the first thing that is wrong.
 */
public fun readJob(bytes: ByteArray): Job {
    val content = parseJson(bytes, WHERE)
    requireVersion(content, WHERE)
    val job = fields(content, "$WHERE: $") { job(this) }
    val rest = Json.Obj((content as Json.Obj).entries - "job_id")
    if (job.id != rest.canonicalSha256()) {
        throw ProtocolException("The job does not have the digest that it names.", "$WHERE: $.job_id")
    }
    return job.also(::requireSound)
}

/** Refuses what a program of another major version, or of a newer minor one, wrote. */
internal fun requireVersion(
    content: Json,
    where: String,
) {
    val version =
        (content as? Json.Obj)?.entries?.get("protocol") as? Json.Obj
            ?: throw ProtocolException("No protocol version.", where)
    val major = (version.entries["major"] as? Json.Whole)?.value
    val minor = (version.entries["minor"] as? Json.Whole)?.value
    if (major == null || minor == null || minor < 0) {
        throw ProtocolException("The protocol version is no pair of whole numbers.", where)
    }
    if (major != PROTOCOL_MAJOR || minor > PROTOCOL_MINOR) {
        throw ProtocolException(
            "Protocol $major.$minor, but this harness speaks $PROTOCOL_MAJOR.$PROTOCOL_MINOR: " +
                "install the same version of phoneproof and of its harness.",
            where,
        )
    }
}

/** The version was compared already; what is left is that it has no other keys. */
internal val versionItem: (Json, String) -> Unit = { value, place ->
    fields(value, place) {
        whole("major")
        whole("minor")
    }
}

internal val fileItem: (Json, String) -> FileRef = { value, place ->
    fields(value, place) { FileRef(text("name"), text("sha256"), whole("size_bytes")) }
}

private fun job(fields: Fields): Job {
    fields.inner("protocol", versionItem)
    return Job(
        id = fields.text("job_id"),
        configurations = fields.list("configurations", ::configuration),
        samples = fields.list("samples", ::sampleSet),
        cases = fields.list("cases", ::case),
        limits = fields.inner("limits", ::limits),
    )
}

private fun configuration(
    value: Json,
    place: String,
): Configuration =
    fields(value, place) {
        Configuration(
            id = text("configuration_id"),
            buildId = text("build_id"),
            runtime = text("runtime"),
            accelerator = text("accelerator"),
            allowFallback = truth("allow_fallback"),
            threads = whole("threads", least = 1),
            model = inner("model", ::model),
            options = map("options", textItem),
        )
    }

private fun model(
    value: Json,
    place: String,
): ModelFiles = fields(value, place) { ModelFiles(text("entry"), list("files", fileItem)) }

private fun sampleSet(
    value: Json,
    place: String,
): SampleSet =
    fields(value, place) {
        SampleSet(text("samples_id"), whole("count", least = 1), list("inputs", ::sampleInput))
    }

private fun sampleInput(
    value: Json,
    place: String,
): SampleInput =
    fields(value, place) {
        val name = text("name")
        val dtype = word<DType>("dtype")
        val shape = list("shape", wholeItem)
        val shards = list("shards", ::shard)
        when (text("kind")) {
            "raw" -> SampleInput.Raw(name, dtype, shape, shards)
            "u8+table" -> {
                val layout = word<Layout>("layout")
                val pixels = list("pixels_shape", wholeItem)
                SampleInput.Table(name, dtype, shape, layout, pixels, shards, inner("table", fileItem))
            }
            else -> throw wrong("raw or u8+table", at("kind"))
        }
    }

private fun shard(
    value: Json,
    place: String,
): Shard = fields(value, place) { Shard(inner("file", fileItem), whole("count", least = 1)) }

private fun case(
    value: Json,
    place: String,
): Case =
    fields(value, place) {
        val id = text("case_id")
        when (text("kind")) {
            "load" -> Case.Load(id, text("configuration"))
            "infer" ->
                Case.Infer(
                    id = id,
                    configuration = text("configuration"),
                    samples = text("samples"),
                    first = whole("first", least = 0),
                    count = whole("count", least = 1),
                    keep = inner("keep", ::keep),
                )
            "benchmark" -> benchmark(this, id)
            else -> throw wrong("load, infer or benchmark", at("kind"))
        }
    }

private fun benchmark(
    fields: Fields,
    id: String,
): Case.Benchmark {
    val configuration = fields.textOrNull("baseline")
    val samples = fields.textOrNull("baseline_samples")
    val interleaving = fields.word<Interleaving>("interleaving")
    val baseline = if (configuration != null && samples != null) Baseline(configuration, samples) else null
    val alone = interleaving == Interleaving.NONE
    if (alone != (configuration == null) || alone != (samples == null)) {
        val what = "No baseline, no baseline_samples and interleaving none go together."
        throw ProtocolException(what, fields.at("baseline"))
    }
    return Case.Benchmark(
        id = id,
        candidate = fields.text("candidate"),
        baseline = baseline,
        samples = fields.text("samples"),
        rounds = fields.whole("rounds", least = 1),
        interleaving = interleaving,
        warmupMs = fields.whole("warmup_ms", least = 0),
        visitMs = fields.whole("visit_ms", least = 1),
        maxRunsPerVisit = fields.whole("max_runs_per_visit", least = 1),
        batchBelowNs = fields.whole("batch_below_ns", least = 0),
        pauseMs = fields.whole("pause_ms", least = 0),
    )
}

internal fun keep(
    value: Json,
    place: String,
): Keep =
    fields(value, place) {
        val kind = text("kind")
        val k = wholeOrNull("k", least = 1)
        val axis = wholeOrNull("axis")
        if ((kind == "topk") != (k != null) || (kind == "argmax") != (axis != null)) {
            throw ProtocolException("`k` goes with topk and `axis` with argmax, and only then.", place)
        }
        when {
            k != null -> Keep.TopK(k)
            axis != null -> Keep.ArgMax(axis)
            kind == "full" -> Keep.Full
            kind == "none" -> Keep.None
            else -> throw wrong("full, topk, argmax or none", at("kind"))
        }
    }

private fun limits(
    value: Json,
    place: String,
): Limits =
    fields(value, place) {
        Limits(
            loadTimeoutMs = whole("load_timeout_ms", least = 1),
            sampleTimeoutMs = whole("sample_timeout_ms", least = 1),
            roundTimeoutMs = whole("round_timeout_ms", least = 1),
            memoryBytes = wholeOrNull("memory_bytes", least = 1),
            heartbeatMs = whole("heartbeat_ms", least = 1),
            badSamplesPerCase = whole("bad_samples_per_case", least = 1),
            maxAttempts = whole("max_attempts", least = 1),
            startFailures = whole("start_failures", least = 1),
            interruptionsAtOnePlace = whole("interruptions_at_one_place", least = 1),
        )
    }
