package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.ExitCode
import dev.phoneproof.harness.protocol.FolderSync
import dev.phoneproof.harness.protocol.ProtocolException
import java.io.File
import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption

/** The harness on a JVM of a computer: one attempt at the job of a folder, as a phone would run it. */
public object HarnessMain {
    private const val USAGE = "usage: HarnessMain FOLDER [--runtime CLASS]...\n"

    /**
     * `FOLDER [--runtime CLASS]...`: CLASS is a [RuntimeProvider] with a constructor without parameters. The process
     * ends with an [ExitCode].
     */
    @JvmStatic
    public fun main(arguments: Array<String>) {
        // Halted, not returned: no thread of a runtime keeps the process, and none of its exit handlers crashes it.
        halt.now(run(arguments.toList()), "")
    }

    private fun run(arguments: List<String>): Int {
        val folder = arguments.firstOrNull()?.takeUnless { it.startsWith("-") } ?: return usage()
        val options = arguments.drop(1).chunked(2)
        if (options.any { it.size != 2 || it[0] != "--runtime" }) return usage()
        return try {
            val providers = options.map { provider(it[1]) }
            runAttempt(File(folder), Platform(providers, ProcMachine(), nioFolderSync, halt))
            ExitCode.OK
        } catch (error: ProtocolException) {
            System.err.println(error.message)
            ExitCode.UNREADABLE
        } catch (error: IOException) {
            // Of job.json or earlier events: the disk's refusal of the runner's own files has left already.
            System.err.println(error)
            ExitCode.UNREADABLE
        } catch (error: ReflectiveOperationException) {
            System.err.println("no such runtime: $error")
            ExitCode.USAGE
        }
    }

    private fun usage(): Int {
        System.err.print(USAGE)
        return ExitCode.USAGE
    }

    private fun provider(className: String): RuntimeProvider =
        Class
            .forName(className)
            .asSubclass(RuntimeProvider::class.java)
            .getDeclaredConstructor()
            .newInstance()

    private val halt =
        Leave { code, reason ->
            if (reason.isNotEmpty()) System.err.println(reason)
            System.err.flush()
            java.lang.Runtime
                .getRuntime()
                .halt(code)
            error("halt does not return")
        }

    private val nioFolderSync =
        FolderSync { folder ->
            FileChannel.open(folder.toPath(), StandardOpenOption.READ).use { it.force(true) }
        }
}
