package dev.phoneproof.harness.protocol

import java.io.IOException

/**
 * What was read or is to be written does not follow the protocol. [what] is one sentence, [where] the place
 * (`job.json: $.cases[3].kind`, `0001.jsonl:7`).
 */
public class ProtocolException(
    public val what: String,
    public val where: String,
) : Exception(if (where.isEmpty()) what else "$what ($where)")

/** The disk refused a file of the runner's own. No case is to blame: the runner leaves with [ExitCode.STORAGE]. */
public class StorageException(
    message: String,
    cause: IOException,
) : IOException(message, cause)

/** What the exit code of a runner means; the same numbers as those of the host harness. */
public object ExitCode {
    public const val OK: Int = 0

    /** The job or its earlier events cannot be read. */
    public const val UNREADABLE: Int = 1

    /** The command line is none. EX_USAGE of sysexits.h. */
    public const val USAGE: Int = 64

    /** The disk refused the runner's own files. EX_IOERR of sysexits.h. */
    public const val STORAGE: Int = 74
}
