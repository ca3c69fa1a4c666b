package dev.phoneproof.harness.protocol

import java.io.File
import java.io.IOException
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.zip.CRC32

/** Makes the entries of a folder outlive a loss of power. A seam: Java has it from Android's API 26 on only. */
public fun interface FolderSync {
    @Throws(IOException::class)
    public fun sync(folder: File)
}

/**
 * Appends records to a case's output file, resuming it: a torn tail and records from [nextSample] on are cut.
 *
 * A record is handed to the operating system by [append], and synced by [finish].
 *
 * @throws ProtocolException for a file of another format; it is left as it is.
 * @throws StorageException when the disk refuses.
 */
public class OutputWriter(
    private val path: File,
    nextSample: Long,
    folderSync: FolderSync,
) : AutoCloseable {
    private var leastSample = nextSample
    private var size = 0L
    private val digest = sha256()
    private val chunk = ByteArray(CHUNK)
    private val file = storage { RandomAccessFile(path, "rw") }

    init {
        try {
            storage { resume(folderSync) }
        } catch (error: Throwable) {
            close()
            throw error
        }
    }

    private fun resume(folderSync: FolderSync) {
        val scanner = RecordScanner(file, path.name, tornTail = true)
        if (scanner.hasHeader()) {
            count(OutputFormat.HEADER)
            // Samples ascend: from the first that is cut on, all are.
            for (record in scanner.records().takeWhile { it.sample < leastSample }) {
                val checksum = CRC32()
                for (part in listOf(longs(record.body.size.toLong()), ByteBuffer.wrap(record.body))) {
                    transfer(part, checksum) { length -> digest.update(chunk, 0, length) }
                }
                digest.update(ints(checksum.value.toInt()).array())
                size = record.end
            }
        }
        file.setLength(size)
        file.seek(size)
        if (size == 0L) {
            file.write(OutputFormat.HEADER)
            count(OutputFormat.HEADER)
            path.absoluteFile.parentFile?.let(folderSync::sync)
        }
        file.fd.sync()
    }

    /**
     * Write the record of one sample; afterwards the process may be killed without losing it.
     *
     * @throws ProtocolException for a sample out of order, or for tensors that no record holds.
     * @throws StorageException when the disk refuses; the runner then has to leave.
     */
    public fun append(
        sample: Long,
        tensors: List<Tensor>,
    ) {
        if (sample < leastSample) throw ProtocolException("Sample $sample is out of order.", path.name)
        val parts = encoded(sample, tensors)
        val body = parts.sumOf { it.remaining().toLong() }
        if (body > OutputFormat.MAX_BODY_BYTES) {
            throw ProtocolException("An output of $body bytes is above ${OutputFormat.MAX_BODY_BYTES}.", path.name)
        }
        storage {
            val checksum = CRC32()
            for (part in listOf(longs(body)) + parts) transfer(part, checksum, ::write)
            transfer(ints(checksum.value.toInt()), CRC32(), ::write)
        }
        leastSample = sample + 1
    }

    /** Sync and close the file; what it is now, by its name relative to the job's folder. */
    public fun finish(): FileRef {
        storage { file.use { it.fd.sync() } }
        return FileRef("$OUTPUTS_FOLDER/${path.name}", digest.digest().toHex(), size)
    }

    /** Close the file without syncing it. Safe twice, and after [finish]. */
    override fun close() {
        file.close()
    }

    private fun encoded(
        sample: Long,
        tensors: List<Tensor>,
    ): List<ByteBuffer> {
        val parts = mutableListOf(longs(sample), ints(tensors.size))
        for (tensor in tensors) {
            val rank = tensor.shape.size
            if (rank > OutputFormat.MAX_RANK) {
                throw ProtocolException("A tensor of rank $rank cannot be stored.", path.name)
            }
            val head = ByteBuffer.allocate(4 + 8 * (rank + 1)).order(ByteOrder.LITTLE_ENDIAN)
            head.put(tensor.dtype.code.toByte()).put(rank.toByte()).putShort(0)
            tensor.shape.forEach { head.putLong(it.toLong()) }
            val bytes = tensor.bytes()
            head.putLong(bytes.remaining().toLong()).rewind()
            parts += head
            parts += bytes
        }
        return parts
    }

    /** In pieces through an array: CRC32 takes a ByteBuffer from Android's API 26 on only. */
    private inline fun transfer(
        part: ByteBuffer,
        checksum: CRC32,
        consume: (Int) -> Unit,
    ) {
        while (part.hasRemaining()) {
            val length = minOf(part.remaining(), chunk.size)
            part.get(chunk, 0, length)
            checksum.update(chunk, 0, length)
            consume(length)
        }
    }

    private fun write(length: Int) {
        file.write(chunk, 0, length)
        digest.update(chunk, 0, length)
        size += length
    }

    private fun count(bytes: ByteArray) {
        digest.update(bytes)
        size += bytes.size
    }

    private fun longs(value: Long): ByteBuffer =
        ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).apply {
            putLong(0, value)
        }

    private fun ints(value: Int): ByteBuffer =
        ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).apply {
            putInt(0, value)
        }

    private inline fun <T> storage(act: () -> T): T =
        try {
            act()
        } catch (error: IOException) {
            throw StorageException("The output file ${path.name} cannot be written: ${error.message}", error)
        }

    private companion object {
        const val CHUNK = 1 shl 16
    }
}
