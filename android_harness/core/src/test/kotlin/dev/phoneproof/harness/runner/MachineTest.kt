package dev.phoneproof.harness.runner

import java.io.File
import kotlin.io.path.createTempDirectory
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertNull

class MachineTest {
    private val proc = createTempDirectory("proc").toFile()
    private val machine = ProcMachine(proc)

    @Test
    fun `threads have waited what the kernel says`() {
        val before = threads(7 to "100 20 3\n")
        val after = threads(7 to "200 50 5\n", 9 to "10 5 1\n")
        assertEquals(ThreadTimes(200, 50), after?.get(7))
        assertEquals(35, waitedNs(before, after))
    }

    @Test
    fun `a kernel that counts nothing does not tell`() {
        assertNull(threads(7 to "0 0 0\n"))
        assertNull(threads(7 to "no numbers here\n"))
        assertNull(waitedNs(null, emptyMap()))
        assertNull(ProcMachine(File(proc, "nothing")).threads())
    }

    @Test
    fun `resident memory in bytes`() {
        File(proc, "self").mkdirs()
        File(proc, "self/status").writeText("Name:\tjava\nVmHWM:\t  9 kB\nVmRSS:\t  5 kB\n")
        assertEquals(5 * 1024, machine.residentBytes())
    }

    @Test
    fun `a clock that stands still has no resolution`() {
        assertNull(clockResolutionNs(ticking(0)))
        assertEquals(3, clockResolutionNs(ticking(3)))
    }

    private fun ticking(stepNs: Long): Clock =
        object : Clock {
            private var now = 0L

            override fun monotonicNs(): Long = now.also { now += stepNs }

            override fun wallMs(): Long = 0

            override fun sleepMs(ms: Long) = Unit
        }

    private fun threads(vararg schedstats: Pair<Int, String>): Map<Long, ThreadTimes>? {
        for ((id, text) in schedstats) {
            File(proc, "self/task/$id").mkdirs()
            File(proc, "self/task/$id/schedstat").writeText(text)
        }
        return machine.threads()
    }
}
