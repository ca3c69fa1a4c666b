package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.CaseError
import dev.phoneproof.harness.protocol.Configuration
import dev.phoneproof.harness.protocol.FileRef
import dev.phoneproof.harness.protocol.FolderSync
import dev.phoneproof.harness.protocol.Job
import dev.phoneproof.harness.protocol.Measured
import dev.phoneproof.harness.protocol.ProtocolException
import dev.phoneproof.harness.protocol.SampleInput
import dev.phoneproof.harness.protocol.SampleReader
import dev.phoneproof.harness.protocol.sha256
import dev.phoneproof.harness.protocol.toHex
import java.io.File

/** What a harness brings for its device; the core has no other ties to it. */
public class Platform(
    runtimes: List<RuntimeProvider>,
    public val machine: Machine,
    public val folderSync: FolderSync,
    public val leave: Leave,
    public val clock: Clock = Clock.System,
) {
    internal val runtimes: Map<String, RuntimeProvider> = runtimes.associateBy { it.name }
}

/** What a case gives back to be written as its end. */
internal class Done(
    val measured: Measured,
    val output: FileRef? = null,
)

/** A loaded configuration with what loading it cost. */
internal class Loaded(
    val session: Session,
    val loadMs: Double,
) {
    fun measured(): Measured =
        Measured(
            loadMs = loadMs,
            acceleratorActual = session.acceleratorActual,
            operators = session.operators,
        )

    /** Give the memory back. What the runtime throws goes to the log: the cases that it ran are done. */
    fun close() {
        try {
            session.close()
        } catch (error: Throwable) {
            error.printStackTrace()
        }
    }
}

/** What the cases of one attempt share. */
internal class CurrentAttempt(
    val job: Job,
    val folder: File,
    val platform: Platform,
    val log: EventLog,
) : AutoCloseable {
    /** The case under way, as heartbeats tell it. */
    @Volatile
    var openCase: String? = null

    private val files = File(folder, "files")
    private val opened = mutableMapOf<String, Runtime>()
    private val readers = mutableMapOf<String, SampleReader>()
    private val verified = mutableSetOf<File>()
    private var kept: Pair<String, Loaded>? = null

    /** Load a configuration, to be closed by the caller; whatever the runtime throws goes through. */
    fun load(configurationId: String): Loaded {
        val configuration = job.configuration(configurationId)
        val model = configuration.model
        for (ref in model.files) verify(File(files, if (model.isFolder) ref.name else ref.storedPath), ref)
        val runtime = opened.getOrPut(configuration.runtime) { open(configuration) }
        val request =
            LoadRequest(
                model = File(files, model.storedPath),
                accelerator = configuration.accelerator,
                allowFallback = configuration.allowFallback,
                threads = Math.toIntExact(configuration.threads),
                options = configuration.options,
            )
        val begin = platform.clock.monotonicNs()
        val session = runtime.load(request)
        return Loaded(session, (platform.clock.monotonicNs() - begin) / 1e6)
    }

    /** The configuration, loaded, and kept until another is needed: one at a time is in memory. */
    fun loaded(configurationId: String): Loaded {
        kept?.let { (id, loaded) -> if (id == configurationId) return loaded }
        unload()
        return load(configurationId).also { kept = configurationId to it }
    }

    /** Close what is loaded, unless it is one of these. */
    fun unload(except: List<String> = emptyList()) {
        val (id, loaded) = kept ?: return
        if (id in except) return
        kept = null
        loaded.close()
    }

    /** The reader of a sample set; its files are verified when it is first asked for. */
    fun reader(samplesId: String): SampleReader =
        readers.getOrPut(samplesId) {
            val set = job.sampleSet(samplesId)
            for (input in set.inputs) {
                val refs = input.shards.map { it.file } + listOfNotNull((input as? SampleInput.Table)?.table)
                for (ref in refs) verify(File(files, ref.storedPath), ref)
            }
            SampleReader(set, files)
        }

    override fun close() {
        unload()
        readers.values.forEach(SampleReader::close)
    }

    private fun open(configuration: Configuration): Runtime {
        val provider = platform.runtimes[configuration.runtime]
        return requireNotNull(provider) { "This harness has no runtime '${configuration.runtime}'." }.open()
    }

    /** Size and digest of a file before it is used, once in an attempt: it may have been cut short on its way. */
    private fun verify(
        file: File,
        ref: FileRef,
    ) {
        if (file in verified) return
        if (file.length() != ref.sizeBytes) {
            throw ProtocolException("The file has ${file.length()} bytes, not ${ref.sizeBytes}.", ref.name)
        }
        val digest = sha256()
        file.forEachBlock(1 shl 16) { block, length -> digest.update(block, 0, length) }
        if (digest.digest().toHex() != ref.sha256) {
            throw ProtocolException("The file has another sha256 than the job says.", ref.name)
        }
        verified += file
    }
}

private const val MOST_CHARACTERS = 4_000

/** What was thrown as the protocol's error. The text of a vendor's exception may itself throw. */
internal fun caseError(thrown: Throwable): CaseError {
    val message =
        try {
            thrown.message.orEmpty()
        } catch (_: Throwable) {
            "(its text cannot be read)"
        }
    return CaseError(thrown.javaClass.name.substringAfterLast('.'), message.take(MOST_CHARACTERS))
}
