package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.Tensor
import java.io.File

/**
 * A runtime that this harness may have. Making one and asking for its version loads no native code: a runtime that
 * crashes or hangs while it is opened must do so inside the load case of its own configurations.
 */
public interface RuntimeProvider {
    /** The name that a configuration asks for. */
    public val name: String

    /** Version of what executes; null where it tells only once it is open. */
    public val version: String?

    /** Whatever it throws is the end of the load case. */
    public fun open(): Runtime
}

/** The seam to what executes a build. */
public fun interface Runtime {
    /** Whatever it throws is the end of the case. */
    public fun load(request: LoadRequest): Session
}

/**
 * How a build is to be loaded. [model] is the model's file or folder. [allowFallback] says whether operators may
 * run elsewhere than on the accelerator. [options] are the runtime's own; an unknown one is an error.
 */
public data class LoadRequest(
    val model: File,
    val accelerator: String,
    val allowFallback: Boolean,
    val threads: Int,
    val options: Map<String, String>,
)

/** A loaded build, used by one thread. */
public interface Session : AutoCloseable {
    /** The accelerator that the runtime reports to use; null where it does not tell. */
    public val acceleratorActual: String?

    /** Number of operators on each accelerator, as the runtime reports it; null where it does not tell. */
    public val operators: Map<String, Long>?

    /**
     * An invocation with these inputs in place, by name, batch included. IllegalArgumentException for an input that
     * the build does not have, or one that is missing.
     */
    public fun prepare(inputs: Map<String, Tensor>): Invocation

    /** Give the memory back. Safe twice. */
    override fun close()
}

/**
 * One inference, apart from reading what came out: [run] is what a benchmark times, and no tensor is made for Java
 * in that time.
 */
public interface Invocation {
    /** Run one inference and nothing else; safe many times. */
    public fun run()

    /** Outputs of the last [run] in the model's order; valid until the next. */
    public fun outputs(): List<Tensor>
}
