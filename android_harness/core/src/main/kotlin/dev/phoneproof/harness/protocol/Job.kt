package dev.phoneproof.harness.protocol

/** Version of the protocol that this harness speaks. */
public const val PROTOCOL_MAJOR: Long = 1
public const val PROTOCOL_MINOR: Long = 0

/** A file of the job: [name] is a file name or inner path. */
public data class FileRef(
    val name: String,
    val sha256: String,
    val sizeBytes: Long,
) {
    /** Where a file that is no part of a folder lies below `files/`. */
    val storedPath: String get() = "$sha256/$name"
}

/** A build's model: [entry] is the name of its one file, or of the folder that all [files] lie in. */
public data class ModelFiles(
    val entry: String,
    val files: List<FileRef>,
) {
    val isFolder: Boolean get() = files.size != 1 || files[0].name != entry

    /** Where its file or folder lies below `files/`. */
    val storedPath: String get() = if (isFolder) entry else files[0].storedPath
}

/** One way of running a build. */
public data class Configuration(
    val id: String,
    val buildId: String,
    val runtime: String,
    val accelerator: String,
    val allowFallback: Boolean,
    val threads: Long,
    val model: ModelFiles,
    val options: Map<String, String>,
)

/** [count] consecutive samples in one file. */
public data class Shard(
    val file: FileRef,
    val count: Long,
)

/** One input of a set of samples; [shape] is the build's, batch included. */
public sealed interface SampleInput {
    public val name: String
    public val dtype: DType
    public val shape: List<Long>
    public val shards: List<Shard>

    /** Samples as the runtime gets them. */
    public data class Raw(
        override val name: String,
        override val dtype: DType,
        override val shape: List<Long>,
        override val shards: List<Shard>,
    ) : SampleInput

    /** uint8 pixels (height, width, channels) and, for each channel, the 256 values that they stand for. */
    public data class Table(
        override val name: String,
        override val dtype: DType,
        override val shape: List<Long>,
        val layout: Layout,
        val pixelsShape: List<Long>,
        override val shards: List<Shard>,
        val table: FileRef,
    ) : SampleInput
}

public enum class Layout(
    override val word: String,
) : Word {
    NCHW("nchw"),
    NHWC("nhwc"),
}

/** The samples that cases draw from. */
public data class SampleSet(
    val id: String,
    val count: Long,
    val inputs: List<SampleInput>,
)

/** What is kept of the outputs of an inference. */
public sealed interface Keep {
    /** All tensors as they are. */
    public data object Full : Keep

    /** The [k] largest along the last axis with their indices. */
    public data class TopK(
        val k: Long,
    ) : Keep

    /** The index of the largest along [axis]; a negative axis counts from the last. */
    public data class ArgMax(
        val axis: Long,
    ) : Keep

    /** Nothing: the case has no output file. */
    public data object None : Keep
}

/** One piece of a job's work. [configurations] are those that it runs, the baseline first. */
public sealed interface Case {
    public val id: String
    public val configurations: List<String>

    public data class Load(
        override val id: String,
        val configuration: String,
    ) : Case {
        override val configurations: List<String> get() = listOf(configuration)
    }

    /** Samples [first] to [last], one at a time. */
    public data class Infer(
        override val id: String,
        val configuration: String,
        val samples: String,
        val first: Long,
        val count: Long,
        val keep: Keep,
    ) : Case {
        override val configurations: List<String> get() = listOf(configuration)

        /** One behind the last sample. */
        val end: Long get() = first + count
    }

    /** Times [candidate], alone or in rounds with [baseline]. */
    public data class Benchmark(
        override val id: String,
        val candidate: String,
        val baseline: Baseline?,
        val samples: String,
        val rounds: Long,
        val interleaving: Interleaving,
        val warmupMs: Long,
        val visitMs: Long,
        val maxRunsPerVisit: Long,
        val batchBelowNs: Long,
        val pauseMs: Long,
    ) : Case {
        override val configurations: List<String> get() = listOfNotNull(baseline?.configuration, candidate)
    }
}

/** The other side of a benchmark, with samples of its own: its inputs may be of another dtype. */
public data class Baseline(
    val configuration: String,
    val samples: String,
)

public enum class Interleaving(
    override val word: String,
) : Word {
    IN_PROCESS("in_process"),
    BY_PROCESS("by_process"),
    NONE("none"),
}

/** When a runner is ended, and when the rule of attempts stops trying. */
public data class Limits(
    val loadTimeoutMs: Long,
    val sampleTimeoutMs: Long,
    val roundTimeoutMs: Long,
    val memoryBytes: Long?,
    val heartbeatMs: Long,
    val badSamplesPerCase: Long,
    val maxAttempts: Long,
    val startFailures: Long,
    val interruptionsAtOnePlace: Long,
)

/** Work for one device. Cases run in order. Made by [readJob], which refuses what no harness could carry out. */
public class Job internal constructor(
    public val id: String,
    public val configurations: List<Configuration>,
    public val samples: List<SampleSet>,
    public val cases: List<Case>,
    public val limits: Limits,
) {
    private val configurationsById = configurations.associateBy { it.id }
    private val samplesById = samples.associateBy { it.id }
    private val casesById = cases.associateBy { it.id }

    /** The case of that id, or null. */
    public fun case(id: String): Case? = casesById[id]

    /** The configuration that a case of this job names. */
    public fun configuration(id: String): Configuration = configurationsById.getValue(id)

    /** The sample set that a case of this job names. */
    public fun sampleSet(id: String): SampleSet = samplesById.getValue(id)
}
