package dev.phoneproof.harness.protocol

/** How one side of a benchmark is timed: [batch] invocations in a timed batch, [runs] timed batches in a visit. */
public data class Pace(
    val batch: Long,
    val runs: Long,
)

/** A batch that reaches batch_below_ns, and as many as fill visit_ms: at least 1, at most the job's cap. */
public fun paceFor(
    singleNs: Long,
    case: Case.Benchmark,
): Pace {
    val single = maxOf(1, singleNs)
    val batch = if (single >= case.batchBelowNs) 1 else (case.batchBelowNs - 1) / single + 1
    val wanted = Math.rint(case.visitMs * 1e6 / (single.toDouble() * batch)).toLong()
    return Pace(batch, wanted.coerceIn(1, case.maxRunsPerVisit))
}
