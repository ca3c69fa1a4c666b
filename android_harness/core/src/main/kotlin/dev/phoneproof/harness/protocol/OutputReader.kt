package dev.phoneproof.harness.protocol

import java.io.EOFException
import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.zip.CRC32

/** Format of outputs/<case_id>.bin: PROTOCOL.md, section 8. */
internal object OutputFormat {
    val HEADER: ByteArray = byteArrayOf(0x50, 0x50, 0x4f, 0x55, 0x54, 0, 1, 0)
    const val LENGTH_BYTES: Int = 8
    const val CHECKSUM_BYTES: Int = 4

    /** Bytes of a body's sample and number of tensors. */
    const val BODY_HEAD_BYTES: Int = 12

    /** The longest body: a reader on a phone holds one record in one array. */
    const val MAX_BODY_BYTES: Long = 1L shl 30
    const val MAX_RANK: Int = 32
}

/** The tensors that are stored for one sample. */
public class OutputRecord(
    public val sample: Long,
    public val tensors: List<Tensor>,
)

/** A whole record: where it ends in its file, its sample, and its body. */
internal class RawRecord(
    val end: Long,
    val sample: Long,
    val body: ByteArray,
)

/**
 * The records of a file in their order, one in memory at a time.
 *
 * @param tornTail whether the file may end in a torn record, which is left out: a file without case_finished may.
 * @throws ProtocolException for bytes that are no such file.
 */
public fun readOutputs(
    file: File,
    tornTail: Boolean,
    consume: (OutputRecord) -> Unit,
) {
    RandomAccessFile(file, "r").use { open ->
        val records = RecordScanner(open, file.name, tornTail).records()
        records.forEach { consume(OutputRecord(it.sample, tensors(it, file.name))) }
    }
}

/**
 * Samples from [first] up to but without [nextSample] that have no record in [file]; all if there is no file.
 *
 * Some are missing after the machine, not only the process, went down: records are synced at the end of a case.
 */
public fun missingSamples(
    file: File,
    first: Long,
    nextSample: Long,
): Set<Long> {
    val missing = (first until nextSample).toMutableSet()
    if (file.exists()) {
        RandomAccessFile(file, "r").use { open ->
            RecordScanner(open, file.name, tornTail = true).records().forEach { missing -= it.sample }
        }
    }
    return missing
}

/** Goes through the whole records of a file from its beginning, samples ascending. */
internal class RecordScanner(
    private val file: RandomAccessFile,
    private val place: String,
    private val tornTail: Boolean,
) {
    private val size = file.length()

    /** Whether the header is whole, else it is torn. The file then stands behind it. */
    fun hasHeader(): Boolean {
        file.seek(0)
        val header = ByteArray(minOf(size, OutputFormat.HEADER.size.toLong()).toInt())
        file.readFully(header)
        if (header.contentEquals(OutputFormat.HEADER)) return true
        val written = header.dropLastWhile { it == ZERO }
        if (written != OutputFormat.HEADER.take(written.size) || !onlyZerosFollow()) {
            throw ProtocolException("Not an output file of this version.", place)
        }
        return false
    }

    /** Read as they are asked for: what lies behind the last one that was taken is not looked at. */
    fun records(): Sequence<RawRecord> =
        sequence {
            if (!hasHeader()) {
                if (tornTail) return@sequence
                throw ProtocolException("The header is torn.", place)
            }
            var begin = OutputFormat.HEADER.size.toLong()
            var last = -1L
            while (begin < size) {
                val record = recordAt(begin)
                if (record == null) {
                    if (tornTail) return@sequence
                    throw ProtocolException("The record at byte $begin is torn.", place)
                }
                if (record.sample <= last) throw ProtocolException("The record at byte $begin is out of order.", place)
                yield(record)
                begin = record.end
                last = record.sample
            }
        }

    /**
     * The record that begins at [begin]; null if it is torn: cut short, or wrong and the last in the file. After a
     * loss of power some file systems leave zeros where bytes were not yet written.
     */
    private fun recordAt(begin: Long): RawRecord? {
        val rest = size - begin - OutputFormat.LENGTH_BYTES - OutputFormat.CHECKSUM_BYTES
        if (rest < 0) return null
        file.seek(begin)
        val prefix = ByteArray(OutputFormat.LENGTH_BYTES).also(file::readFully)
        val length = little(prefix).getLong(0)
        // A length of 2^63 or more is negative here; it too is beyond the end of the file.
        if (length < 0 || length > rest) return null
        if (length < OutputFormat.BODY_HEAD_BYTES || length > OutputFormat.MAX_BODY_BYTES) {
            if (length < OutputFormat.BODY_HEAD_BYTES && onlyZerosFollow()) return null
            throw ProtocolException("The record at byte $begin has an impossible length.", place)
        }
        val body = ByteArray(length.toInt()).also(file::readFully)
        val checksum = ByteArray(OutputFormat.CHECKSUM_BYTES).also(file::readFully)
        val computed = CRC32().apply { update(prefix, 0, prefix.size) }.apply { update(body, 0, body.size) }.value
        if (little(checksum).getInt(0) != computed.toInt()) {
            if (onlyZerosFollow()) return null
            throw ProtocolException("The record at byte $begin is damaged.", place)
        }
        val sample = little(body).getLong(0)
        if (sample < 0) throw ProtocolException("The record at byte $begin has no such sample.", place)
        return RawRecord(file.filePointer, sample, body)
    }

    private fun onlyZerosFollow(): Boolean {
        val chunk = ByteArray(CHUNK)
        while (true) {
            val count = file.read(chunk)
            if (count < 0) return true
            for (index in 0 until count) if (chunk[index] != ZERO) return false
        }
    }

    private companion object {
        const val ZERO: Byte = 0
        const val CHUNK = 1 shl 16
    }
}

private fun little(bytes: ByteArray): ByteBuffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)

private fun tensors(
    record: RawRecord,
    place: String,
): List<Tensor> {
    val body = little(record.body)
    val where = "$place: sample ${record.sample}"
    body.position(8)
    val count = body.getInt().toLong() and 0xffff_ffff
    val tensors = mutableListOf<Tensor>()
    try {
        // A tensor has twelve bytes or more, so that a hostile count ends at the end of the body.
        for (index in 0 until count) tensors += tensor(body, where)
    } catch (_: EOFException) {
        throw ProtocolException("A tensor of the record is cut short.", where)
    }
    if (body.hasRemaining()) throw ProtocolException("The record is longer than its tensors.", where)
    return tensors
}

private fun tensor(
    body: ByteBuffer,
    where: String,
): Tensor {
    if (body.remaining() < 4) throw EOFException()
    val code = body.get().toInt() and 0xff
    val rank = body.get().toInt() and 0xff
    val reserved = body.getShort().toInt()
    val dtype = DType.entries.firstOrNull { it.code == code }
    if (dtype == null || rank > OutputFormat.MAX_RANK || reserved != 0) {
        throw ProtocolException("A tensor has an unknown dtype, rank or reserved bytes.", where)
    }
    if (body.remaining() < 8 * (rank + 1)) throw EOFException()
    val shape = List(rank) { body.getLong() }
    val length = body.getLong()
    if (shape.any { it !in 0..Int.MAX_VALUE }) throw ProtocolException("A dimension is too long.", where)
    if (length != byteCount(dtype, shape) || length > body.remaining()) {
        throw ProtocolException("The byte length is not that of the shape, or beyond the record.", where)
    }
    val bytes = ByteArray(length.toInt()).also { body.get(it) }
    if (dtype == DType.BOOL && bytes.any { it != 0.toByte() && it != 1.toByte() }) {
        throw ProtocolException("A bool is neither 0 nor 1.", where)
    }
    return Tensor(dtype, shape.map(Long::toInt), little(bytes))
}
