package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.AttemptEnded
import dev.phoneproof.harness.protocol.Confidence
import dev.phoneproof.harness.protocol.EndCause
import dev.phoneproof.harness.protocol.Event
import dev.phoneproof.harness.protocol.Job
import dev.phoneproof.harness.protocol.Json
import dev.phoneproof.harness.protocol.Progress
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.Stamp
import dev.phoneproof.harness.protocol.StampedEvent
import dev.phoneproof.harness.protocol.canonicalSha256
import dev.phoneproof.harness.protocol.compact
import dev.phoneproof.harness.protocol.eventLine
import dev.phoneproof.harness.protocol.parseJson
import dev.phoneproof.harness.protocol.progressOf
import dev.phoneproof.harness.protocol.readEvents
import dev.phoneproof.harness.protocol.readJob
import dev.phoneproof.harness.protocol.sha256
import dev.phoneproof.harness.protocol.toHex
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.io.path.createTempDirectory

/**
 * A job's folder with two configurations, `float` and `int8`, of [FakeRuntime], and [SAMPLES] samples of one input:
 * float32 [1, 2], sample n holds n and n + 0.5.
 */
class JobFolder(
    cases: List<String>,
    floatOptions: Map<String, String> = emptyMap(),
    int8Options: Map<String, String> = emptyMap(),
    threads: Int = 1,
    badSamples: Int = 3,
    heartbeatMs: Int = 1_000,
) {
    val folder: File = createTempDirectory("job").toFile()
    val job: Job

    init {
        val model = put("model.fake", "a model".toByteArray())
        val samples = ByteBuffer.allocate(SAMPLES * 8).order(ByteOrder.LITTLE_ENDIAN)
        for (sample in 0 until SAMPLES) samples.putFloat(sample.toFloat()).putFloat(sample + 0.5f)
        val shard = put("x.bin", samples.array())

        fun configuration(
            id: String,
            options: Map<String, String>,
        ): String {
            val asJson = Json.Obj(options.mapValues { Json.Text(it.value) }).compact()
            return """{"configuration_id":"$id","build_id":"$id","runtime":"fake","accelerator":"cpu",
                "allow_fallback":false,"threads":$threads,"model":{"entry":"model.fake","files":[$model]},
                "options":$asJson}"""
        }
        val text =
            """{"protocol":{"major":1,"minor":0},
            "configurations":[${configuration("float", floatOptions)},${configuration("int8", int8Options)}],
            "samples":[{"samples_id":"set","count":$SAMPLES,"inputs":[{"kind":"raw","name":"x","dtype":"float32",
                "shape":[1,2],"shards":[{"file":$shard,"count":$SAMPLES}]}]}],
            "cases":[${cases.joinToString(",")}],
            "limits":{"load_timeout_ms":1000,"sample_timeout_ms":1000,"round_timeout_ms":1000,"memory_bytes":null,
                "heartbeat_ms":$heartbeatMs,"bad_samples_per_case":$badSamples,"max_attempts":9,"start_failures":3,
                "interruptions_at_one_place":3}}"""
        val content = parseJson(text.toByteArray(), "test") as Json.Obj
        val whole = Json.Obj(content.entries + ("job_id" to Json.Text(content.canonicalSha256())))
        val bytes = whole.compact().toByteArray()
        File(folder, "job.json").writeBytes(bytes)
        job = readJob(bytes)
    }

    val events: List<Event> get() = readEvents(folder)
    val progress: Progress get() = progressOf(job, events)

    /** Events of the runners, in order. */
    val told: List<RunnerEvent>
        get() =
            events
                .filterIsInstance<StampedEvent>()
                .sortedWith(compareBy({ it.stamp.attempt }, { it.stamp.seq }))
                .map { it.event }

    fun finished(caseId: String): RunnerEvent.CaseFinished =
        told.filterIsInstance<RunnerEvent.CaseFinished>().last {
            it.caseId ==
                caseId
        }

    /** The supervisor's word on an attempt, as it appends it. */
    fun say(
        attempt: Long,
        cause: EndCause,
        code: Long? = null,
    ) {
        val seq = events.count { it is AttemptEnded }.toLong()
        val word = AttemptEnded(Stamp(attempt, seq, 0, 0), cause, code, Confidence.HIGH)
        File(folder, "attempts.jsonl").appendBytes(eventLine(word))
    }

    fun delete() {
        folder.deleteRecursively()
    }

    private fun put(
        name: String,
        content: ByteArray,
    ): String {
        val digest = sha256().digest(content).toHex()
        val file = File(folder, "files/$digest/$name")
        file.parentFile.mkdirs()
        file.writeBytes(content)
        return """{"name":"$name","sha256":"$digest","size_bytes":${content.size}}"""
    }

    companion object {
        const val SAMPLES = 6

        fun load(configuration: String) =
            """{"kind":"load","case_id":"load-$configuration","configuration":"$configuration"}"""

        fun infer(
            configuration: String,
            keep: String = """{"kind":"full","k":null,"axis":null}""",
        ) = """{"kind":"infer","case_id":"infer-$configuration","configuration":"$configuration","samples":"set",
            "first":0,"count":$SAMPLES,"keep":$keep}"""

        fun benchmark(interleaving: String): String {
            val pair = interleaving != "none"
            val baseline = if (pair) "\"float\"" else "null"
            val samples = if (pair) "\"set\"" else "null"
            return """{"kind":"benchmark","case_id":"bench","candidate":"int8","baseline":$baseline,"samples":"set",
                "baseline_samples":$samples,"rounds":2,"interleaving":"$interleaving","warmup_ms":1,"visit_ms":2,
                "max_runs_per_visit":5,"batch_below_ns":100000,"pause_ms":3}"""
        }
    }
}
