package dev.phoneproof.harness.protocol

import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * Random access to the samples of one set, by offset: no more than one sample of each input is in memory.
 *
 * [files] is the job's folder of files. Their digests are checked by whoever makes the reader.
 *
 * @throws ProtocolException for a file that has not the bytes the job says, or a sample too large for one buffer.
 */
public class SampleReader(
    set: SampleSet,
    files: File,
) : AutoCloseable {
    private val inputs = mutableMapOf<String, InputReader>()

    init {
        try {
            for (input in set.inputs) inputs[input.name] = InputReader(input, files)
        } catch (error: Throwable) {
            close()
            throw error
        }
    }

    /** Inputs of sample [index] by name, in the build's dtype and shape, each in a direct buffer of its own. */
    public fun read(index: Long): Map<String, Tensor> = inputs.mapValues { it.value.read(index) }

    override fun close() {
        inputs.values.forEach(InputReader::close)
    }
}

private class InputReader(
    private val input: SampleInput,
    files: File,
) : AutoCloseable {
    private class OpenShard(
        val first: Long,
        val end: Long,
        val file: RandomAccessFile,
    )

    private val shape = input.shape.map { Math.toIntExact(it) }
    private val storedBytes =
        when (input) {
            is SampleInput.Raw -> sizeOf(input.dtype, input.shape)
            is SampleInput.Table -> sizeOf(DType.UINT8, input.pixelsShape)
        }
    private val table = (input as? SampleInput.Table)?.let { readTable(it.table, files) }
    private val shards = mutableListOf<OpenShard>()

    init {
        var first = 0L
        for (shard in input.shards) {
            val file = RandomAccessFile(File(files, shard.file.storedPath), "r")
            shards += OpenShard(first, first + shard.count, file)
            first += shard.count
            if (file.length() != shard.file.sizeBytes) {
                throw ProtocolException("The shard has ${file.length()} bytes.", shard.file.name)
            }
        }
    }

    fun read(index: Long): Tensor {
        val shard = shards.firstOrNull { index in it.first until it.end } ?: throw noSample(index)
        return when (input) {
            is SampleInput.Raw -> {
                val data = direct(storedBytes)
                readFully(shard.file, (index - shard.first) * storedBytes, data)
                Tensor(input.dtype, shape, data)
            }
            is SampleInput.Table -> {
                val pixels = ByteArray(storedBytes)
                readFully(shard.file, (index - shard.first) * storedBytes, ByteBuffer.wrap(pixels))
                lookUp(input, pixels)
            }
        }
    }

    private fun noSample(index: Long) = ProtocolException("There is no sample $index.", input.name)

    /** tensor[c, y, x] or tensor[y, x, c] = table[256 c + pixels[y, x, c]]. */
    private fun lookUp(
        from: SampleInput.Table,
        pixels: ByteArray,
    ): Tensor {
        val values = checkNotNull(table) { "made with the reader of such an input" }
        val channels = from.pixelsShape[2].toInt()
        val area = pixels.size / channels
        val size = from.dtype.bytes
        val data = direct(sizeOf(from.dtype, from.shape))
        val isPlanar = from.layout == Layout.NCHW
        for (pixel in 0 until area) {
            for (channel in 0 until channels) {
                val entry = channel * 256 + (pixels[pixel * channels + channel].toInt() and 0xff)
                val target = if (isPlanar) channel * area + pixel else pixel * channels + channel
                when (size) {
                    1 -> data.put(target, values.get(entry))
                    2 -> data.putShort(target * 2, values.getShort(entry * 2))
                    4 -> data.putInt(target * 4, values.getInt(entry * 4))
                    else -> data.putLong(target * 8, values.getLong(entry * 8))
                }
            }
        }
        return Tensor(from.dtype, shape, data)
    }

    override fun close() {
        shards.forEach { it.file.close() }
    }

    private fun sizeOf(
        dtype: DType,
        shape: List<Long>,
    ): Int =
        byteCount(dtype, shape)?.takeIf { it <= Int.MAX_VALUE }?.toInt()
            ?: throw ProtocolException("A sample is too large for one buffer.", input.name)
}

private fun readTable(
    ref: FileRef,
    files: File,
): ByteBuffer {
    val file = File(files, ref.storedPath)
    if (file.length() != ref.sizeBytes) throw ProtocolException("The table has ${file.length()} bytes.", ref.name)
    return ByteBuffer.wrap(file.readBytes()).order(ByteOrder.LITTLE_ENDIAN)
}

private fun readFully(
    file: RandomAccessFile,
    offset: Long,
    target: ByteBuffer,
) {
    var at = offset
    while (target.hasRemaining()) {
        val count = file.channel.read(target, at)
        if (count < 0) throw ProtocolException("The shard ends too early.", "byte $at")
        at += count
    }
    target.rewind()
}

private fun direct(bytes: Int): ByteBuffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.LITTLE_ENDIAN)
