package dev.phoneproof.harness.runner

import dev.phoneproof.harness.protocol.Case
import dev.phoneproof.harness.protocol.Interleaving
import dev.phoneproof.harness.protocol.Measured
import dev.phoneproof.harness.protocol.Order
import dev.phoneproof.harness.protocol.Pace
import dev.phoneproof.harness.protocol.RunnerEvent
import dev.phoneproof.harness.protocol.paceFor

/** One visit: each timed batch in ns, and what the threads of the process waited for a processor. */
internal class VisitTimes(
    val timesNs: List<Long>,
    val waitedNs: Long?,
)

/** One side of a benchmark. Its pace is settled by its first warm-up, once for the whole case. */
internal interface Side {
    val pace: Pace
    val firstMs: Double
    val acceleratorActual: String?
    val operators: Map<String, Long>?

    fun visit(): VisitTimes
}

/** Times a case: load afresh, first inference, warm-up, then rounds; whatever the runtime throws goes through. */
internal class BenchmarkCase(
    private val attempt: CurrentAttempt,
    private val case: Case.Benchmark,
) {
    private val clock = attempt.platform.clock

    fun run(): Done {
        attempt.unload()
        return if (case.interleaving == Interleaving.BY_PROCESS) alternating() else together()
    }

    private fun together(): Done {
        val loaded = mutableListOf<Loaded>()
        try {
            val candidate = attempt.load(case.candidate).also(loaded::add)
            val baseline = case.baseline?.let { attempt.load(it.configuration).also(loaded::add) }
            val pools = case.configurations.any { attempt.job.configuration(it).threads > 1 }
            val rests = pools && baseline != null
            val b = LoadedSide(candidate, case.samples, rests)
            val a = if (baseline != null) LoadedSide(baseline, case.baseline.samples, rests) else null
            rounds(b, a)
            return done(b, a, candidate.loadMs)
        } finally {
            loaded.forEach(Loaded::close)
        }
    }

    /**
     * One side in memory at a time. No second process that the supervisor knows of can be had on Android, so the
     * runner unloads and loads (PROTOCOL.md, section 4).
     */
    private fun alternating(): Done {
        val b = ReloadedSide(case.candidate, case.samples)
        val a = case.baseline?.let { ReloadedSide(it.configuration, it.samples) }
        rounds(b, a)
        return done(b, a, loadMs = null)
    }

    private fun done(
        candidate: Side,
        baseline: Side?,
        loadMs: Double?,
    ) = Done(
        Measured(
            loadMs = loadMs,
            firstMs = candidate.firstMs,
            baselineFirstMs = baseline?.firstMs,
            acceleratorActual = candidate.acceleratorActual,
            operators = candidate.operators,
            clockResolutionNs = clockResolutionNs(clock),
        ),
    )

    private fun rounds(
        candidate: Side,
        baseline: Side?,
    ) {
        val sides = if (baseline == null) listOf(candidate) else listOf(baseline, candidate, candidate, baseline)
        for (round in 0 until case.rounds) {
            // Collected before, so that it is less likely during the visits.
            System.gc()
            val visits = sides.map(Side::visit)
            val waited = visits.mapNotNull { it.waitedNs }
            attempt.log.write(
                RunnerEvent.RoundFinished(
                    caseId = case.id,
                    round = round,
                    order = if (baseline == null) Order.B else Order.ABBA,
                    baselineBatch = baseline?.pace?.batch,
                    candidateBatch = candidate.pace.batch,
                    visitsNs = visits.map { it.timesNs },
                    waitedNs = waited.takeIf { it.size == visits.size },
                ),
            )
            if (case.pauseMs > 0) clock.sleepMs(case.pauseMs)
        }
    }

    private fun prepare(
        loaded: Loaded,
        samples: String,
    ): Invocation = loaded.session.prepare(attempt.reader(samples).read(0))

    private fun firstMs(invocation: Invocation): Double {
        val begin = clock.monotonicNs()
        invocation.run()
        return (clock.monotonicNs() - begin) / 1e6
    }

    /** Runs for warmup_ms, at least three times; the pace follows from the fastest run. */
    private fun warmUp(invocation: Invocation): Pace {
        var fastest = Long.MAX_VALUE
        var runs = 0
        val begin = clock.monotonicNs()
        while (runs < 3 || clock.monotonicNs() - begin < case.warmupMs * 1_000_000) {
            val start = clock.monotonicNs()
            invocation.run()
            fastest = minOf(fastest, clock.monotonicNs() - start)
            runs += 1
        }
        return paceFor(fastest, case)
    }

    private fun visit(
        invocation: Invocation,
        pace: Pace,
    ): VisitTimes {
        // The array is made before, so that nothing but the runtime allocates while time is taken.
        val times = LongArray(Math.toIntExact(pace.runs))
        val before = attempt.platform.machine.threads()
        for (index in times.indices) {
            val begin = clock.monotonicNs()
            for (run in 0 until pace.batch) invocation.run()
            times[index] = clock.monotonicNs() - begin
        }
        return VisitTimes(times.asList(), waitedNs(before, attempt.platform.machine.threads()))
    }

    /**
     * Wait until the threads of this process compute nothing, or for [LONGEST_REST_MS]: a runtime's pool spins on
     * after its last inference, and would take processors from the other side's visit.
     *
     * The kernel brings the times of a running thread up to date at its tick, 10 ms at the slowest: the window is
     * two of them. Where it does not tell, the longest rest is taken.
     */
    private fun restUntilIdle() {
        val end = clock.monotonicNs() + LONGEST_REST_MS * 1_000_000
        while (clock.monotonicNs() < end) {
            val before = ranNs()
            clock.sleepMs(IDLE_WINDOW_MS)
            val after = ranNs()
            if (before != null && after != null && after - before < IDLE_WINDOW_MS * 1_000_000 / 10) return
        }
    }

    private fun ranNs(): Long? =
        attempt.platform.machine
            .threads()
            ?.values
            ?.sumOf { it.ranNs }

    /** A side that stays in memory. [rests]: wait for the other side's pool, then wake the own one, untimed. */
    private inner class LoadedSide(
        loaded: Loaded,
        samples: String,
        private val rests: Boolean,
    ) : Side {
        private val invocation = prepare(loaded, samples)
        override val firstMs = firstMs(invocation)
        override val pace = warmUp(invocation)
        override val acceleratorActual = loaded.session.acceleratorActual
        override val operators = loaded.session.operators

        override fun visit(): VisitTimes {
            if (rests) {
                restUntilIdle()
                invocation.run()
            }
            return visit(invocation, pace)
        }
    }

    /** A side that is loaded for each visit, and gone after it. */
    private inner class ReloadedSide(
        private val configuration: String,
        private val samples: String,
    ) : Side {
        private var settled: Settled? = null
        private val known get() = checkNotNull(settled) { "a visit came before" }
        override val pace get() = known.pace
        override val firstMs get() = known.firstMs
        override val acceleratorActual get() = known.acceleratorActual
        override val operators get() = known.operators

        override fun visit(): VisitTimes {
            val loaded = attempt.load(configuration)
            try {
                val invocation = prepare(loaded, samples)
                val first = firstMs(invocation)
                val warm = warmUp(invocation)
                val now =
                    settled ?: Settled(warm, first, loaded.session.acceleratorActual, loaded.session.operators)
                settled = now
                return visit(invocation, now.pace)
            } finally {
                loaded.close()
                System.gc()
            }
        }
    }

    private class Settled(
        val pace: Pace,
        val firstMs: Double,
        val acceleratorActual: String?,
        val operators: Map<String, Long>?,
    )

    private companion object {
        const val IDLE_WINDOW_MS = 20L
        const val LONGEST_REST_MS = 200L
    }
}
