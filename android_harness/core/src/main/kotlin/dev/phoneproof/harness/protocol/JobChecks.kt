package dev.phoneproof.harness.protocol

import java.util.Locale

private const val MAX_SAMPLES = (1L shl 31) - 1

/** Refuses a job that no harness could carry out: a device acts on it, so nothing in it is taken on trust. */
internal fun requireSound(job: Job) {
    requireIds("configurations", job.configurations.map { it.id })
    requireIds("samples", job.samples.map { it.id })
    requireIds("cases", job.cases.map { it.id })
    job.configurations.forEach(::requireConfiguration)
    job.samples.forEach(::requireSamples)
    requireFiles(job)
    requireCases(job)
}

private fun refuse(
    what: String,
    place: String,
): Nothing = throw ProtocolException(what, "job.json: $place")

private fun requireIds(
    kind: String,
    ids: List<String>,
) {
    val seen = mutableSetOf<String>()
    for (id in ids) {
        if (!isPlainId(id) || !seen.add(id)) refuse("The id '${id.take(80)}' is used twice or not plain.", kind)
    }
}

private fun requireConfiguration(configuration: Configuration) {
    val place = "configuration ${configuration.id}"
    for (name in listOf(configuration.runtime, configuration.accelerator)) {
        if (!isPlainId(name)) refuse("'${name.take(80)}' is no name of a runtime or accelerator.", place)
    }
    val model = configuration.model
    if (model.files.isEmpty() || !isInnerPath(model.entry)) {
        refuse("The model has no file, or its entry leaves its folder.", place)
    }
    if (configuration.options.keys.any { key -> key.any { it.code > 0x7f } }) {
        refuse("The name of an option is not ASCII.", place)
    }
    if (!model.isFolder) return
    if (model.files.any { !it.name.startsWith("${model.entry}/") }) {
        refuse("A file of the model's folder lies outside of it.", place)
    }
    if (isSha256(model.entry.substringBefore('/'))) refuse("The model's folder has the form of a digest.", place)
}

private fun requireSamples(set: SampleSet) {
    val place = "samples ${set.id}"
    if (set.count > MAX_SAMPLES) refuse("count is above $MAX_SAMPLES.", place)
    if (set.inputs.isEmpty() || set.inputs.distinctBy { it.name }.size != set.inputs.size) {
        refuse("The inputs are none, or two have one name.", place)
    }
    for (input in set.inputs) {
        val where = "$place: input ${input.name.take(80)}"
        if (input.shape.any { it < 1 }) refuse("A length of the shape is below 1.", where)
        val bytes =
            when (input) {
                is SampleInput.Raw -> byteCount(input.dtype, input.shape)
                is SampleInput.Table -> pixelBytes(input, where)
            }
        requireShards(input.shards, bytes, set.count, where)
    }
}

private fun pixelBytes(
    input: SampleInput.Table,
    place: String,
): Long? {
    val pixels = input.pixelsShape
    if (pixels.size != 3 || pixels.any { it < 1 }) refuse("The pixels' shape is not height, width, channels.", place)
    val (height, width, channels) = pixels
    val expected =
        when (input.layout) {
            Layout.NCHW -> listOf(1, channels, height, width)
            Layout.NHWC -> listOf(1, height, width, channels)
        }
    if (input.shape != expected) refuse("The shape is not that of one image of these pixels in this layout.", place)
    if (input.table.sizeBytes != byteCount(input.dtype, listOf(channels, 256))) {
        refuse("The table does not hold 256 values for each channel.", place)
    }
    return byteCount(DType.UINT8, pixels)
}

private fun requireShards(
    shards: List<Shard>,
    sampleBytes: Long?,
    count: Long,
    place: String,
) {
    var left = count
    for (shard in shards) {
        val expected = sampleBytes?.let { byteCount(DType.UINT8, listOf(it, shard.count)) }
        if (shard.file.sizeBytes != expected) refuse("A shard has not the bytes of its samples.", place)
        if (shard.count > left) refuse("The shards hold more samples than the set.", place)
        left -= shard.count
    }
    if (left != 0L) refuse("The shards hold fewer samples than the set.", place)
}

/** The files of all configurations and samples go into one folder: no two may claim one place. */
private fun requireFiles(job: Job) {
    val folders = mutableMapOf<String, Set<FileRef>>()
    val places = mutableMapOf<String, FileRef>()
    val refs = mutableListOf<FileRef>()
    for (model in job.configurations.map { it.model }) {
        refs += model.files
        places += model.files.associateBy { if (model.isFolder) it.name else it.storedPath }
        if (!model.isFolder) continue
        val files = model.files.toSet()
        if (folders.getOrPut(model.entry) { files } != files || files.size != model.files.size) {
            refuse("Two models with different files have one entry.", model.entry.take(80))
        }
    }
    for (input in job.samples.flatMap { it.inputs }) {
        val own = input.shards.map { it.file } + listOfNotNull((input as? SampleInput.Table)?.table)
        refs += own
        places += own.associateBy { it.storedPath }
    }
    requireRefs(refs)
    requireNoFileIsFolder(places.keys)
}

private fun requireRefs(refs: List<FileRef>) {
    val sizes = mutableMapOf<String, Long>()
    for (ref in refs) {
        val name = ref.name.take(80)
        if (!isInnerPath(ref.name)) refuse("The file name '$name' leaves its folder.", "files")
        if (!isSha256(ref.sha256) || ref.sizeBytes < 0) refuse("The sha256 or size of '$name' is none.", "files")
        if (sizes.getOrPut(ref.sha256) { ref.sizeBytes } != ref.sizeBytes) {
            refuse("One sha256 has two sizes: '$name'.", "files")
        }
    }
}

private fun requireNoFileIsFolder(paths: Set<String>) {
    // Upper case first: it joins what only full case folding does (ß and ss).
    val folded = paths.groupBy { it.uppercase(Locale.ROOT).lowercase(Locale.ROOT) }
    for ((path, alike) in folded) {
        val parents = path.indices.filter { path[it] == '/' }.map { path.substring(0, it) }
        if (alike.size > 1 || parents.any { it in folded }) {
            refuse("Two files claim one place: '${path.take(80)}'.", "files")
        }
    }
}

private fun requireCases(job: Job) {
    val configurations = job.configurations.associateBy { it.id }
    val counts = job.samples.associate { it.id to it.count }
    val loaded = mutableSetOf<String>()
    for (case in job.cases) {
        val place = "case ${case.id}"
        case.configurations.firstOrNull { it !in configurations }?.let {
            refuse("Unknown configuration '${it.take(80)}'.", place)
        }
        if (case is Case.Load) {
            if (!loaded.add(case.configuration)) refuse("A configuration has one load case.", place)
            continue
        }
        if (!loaded.containsAll(case.configurations)) {
            refuse("A configuration's first case must be its load case.", place)
        }
        when (case) {
            is Case.Infer -> {
                val count = counts[case.samples] ?: refuse("Unknown samples.", place)
                if (case.first > count || case.count > count - case.first) {
                    refuse("The range lies outside the samples.", place)
                }
            }
            is Case.Benchmark -> requireBenchmark(case, configurations, counts, place)
            is Case.Load -> Unit
        }
    }
}

private fun requireBenchmark(
    case: Case.Benchmark,
    configurations: Map<String, Configuration>,
    counts: Map<String, Long>,
    place: String,
) {
    val baseline = case.baseline
    if (listOfNotNull(case.samples, baseline?.samples).any { it !in counts }) refuse("Unknown samples.", place)
    if (baseline == null) return
    if (baseline.configuration == case.candidate) refuse("Baseline and candidate are one configuration.", place)
    if (configurations[baseline.configuration]?.runtime != configurations[case.candidate]?.runtime) {
        refuse("Baseline and candidate must share one runtime.", place)
    }
}
