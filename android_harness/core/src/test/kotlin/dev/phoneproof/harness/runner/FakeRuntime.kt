package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.DType
import dev.phoneproof.harness.protocol.Tensor
import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * A runtime whose network doubles its input. Options say where it misbehaves: `load` = `throw` or `link`; and by the
 * first value of a sample: `throw_at`, `hang_at`, `halt_at`. The option `name` stands in the log of what was done.
 */
class FakeProvider : RuntimeProvider {
    override val name = "fake"
    override val version = "1.2.3"

    override fun open(): Runtime = FakeRuntime()
}

class FakeRuntime(
    private val log: MutableList<String> = mutableListOf(),
) : Runtime {
    override fun load(request: LoadRequest): Session {
        check(request.model.readText() == "a model")
        when (request.options["load"]) {
            "throw" -> throw IllegalStateException("this model is not for me")
            "link" -> throw UnsatisfiedLinkError("no libfake.so")
        }
        log += "load"
        log += "loaded ${request.options["name"]}"
        return FakeSession(request.options, log)
    }
}

class FakeSession(
    private val options: Map<String, String>,
    private val log: MutableList<String>,
) : Session {
    override val acceleratorActual = "cpu"
    override val operators: Map<String, Long>? = mapOf("cpu" to 2L)

    override fun prepare(inputs: Map<String, Tensor>): Invocation {
        val input = inputs.getValue("x").bytes().asFloatBuffer()
        val output = ByteBuffer.allocateDirect(8).order(ByteOrder.LITTLE_ENDIAN)
        log += "prepare"
        return object : Invocation {
            override fun run() {
                log += "run ${options["name"]}"
                misbehave(input.get(0).toInt().toString())
                for (index in 0 until 2) output.putFloat(4 * index, 2 * input.get(index))
            }

            override fun outputs() = listOf(Tensor(DType.FLOAT32, listOf(1, 2), output))
        }
    }

    private fun misbehave(sample: String) {
        when (sample) {
            options["throw_at"] -> throw IllegalArgumentException("not this one")
            options["halt_at"] ->
                java.lang.Runtime
                    .getRuntime()
                    .halt(139)
            options["hang_at"] -> while (true) Thread.sleep(1_000)
        }
    }

    override fun close() {
        log += "close"
    }
}
