package dev.phoneproof.harness.protocol

import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * The tensors to store for one sample: what [keep] leaves of its outputs (PROTOCOL.md, section 4).
 *
 * Among equals the lower index comes first; −0 equals 0; NaN is below every number.
 *
 * @throws ProtocolException for an output without the axis, or for argmax along an axis of length 0.
 */
public fun applyKeep(
    keep: Keep,
    outputs: List<Tensor>,
): List<Tensor> =
    when (keep) {
        Keep.Full -> outputs
        Keep.None -> emptyList()
        is Keep.TopK -> outputs.flatMap { topK(it, keep.k) }
        is Keep.ArgMax -> outputs.map { argMax(it, keep.axis) }
    }

/** The key of NaN. No number has it: the key of −infinity is above. Of int64, only the least value has it. */
private const val NAN_KEY = Long.MIN_VALUE

private fun topK(
    tensor: Tensor,
    k: Long,
): List<Tensor> {
    val length = tensor.shape.lastOrNull() ?: throw ProtocolException("topk of an output without axes.", "")
    val kept = minOf(k, length.toLong()).toInt()
    val shape = tensor.shape.dropLast(1) + kept
    val keys = sortKeys(tensor)
    val rows = if (length == 0) 0 else keys.size / length
    val source = tensor.bytes()
    val size = tensor.dtype.bytes
    val values = buffer(rows * kept * size)
    val indices = buffer(rows * kept * DType.INT32.bytes)
    val element = ByteArray(size)
    for (row in 0 until rows) {
        for (index in largest(keys, row * length, length, kept)) {
            source.position((row * length + index) * size)
            source.get(element)
            values.put(element)
            indices.putInt(index)
        }
    }
    return listOf(Tensor(tensor.dtype, shape, rewound(values)), Tensor(DType.INT32, shape, rewound(indices)))
}

/**
 * Indices of the largest [kept] of [length] keys from [begin] on, largest first, the lower index first among equals.
 *
 * Inserts into the list of those found, which is short where k is: length × log k comparisons, and at most
 * length × k moves by one block copy each.
 */
private fun largest(
    keys: LongArray,
    begin: Int,
    length: Int,
    kept: Int,
): IntArray {
    val found = IntArray(kept)
    var count = 0
    for (index in 0 until length) {
        val key = keys[begin + index]
        if (count == kept && (kept == 0 || key <= keys[begin + found[count - 1]])) continue
        var low = 0
        var high = count
        while (low < high) {
            val middle = (low + high) ushr 1
            if (keys[begin + found[middle]] >= key) low = middle + 1 else high = middle
        }
        if (count < kept) count += 1
        System.arraycopy(found, low, found, low + 1, count - 1 - low)
        found[low] = index
    }
    return found
}

private fun argMax(
    tensor: Tensor,
    axis: Long,
): Tensor {
    val rank = tensor.shape.size
    val at = if (axis < 0) axis + rank else axis
    if (at !in 0 until rank || tensor.shape[at.toInt()] == 0) {
        throw ProtocolException("argmax along axis $axis of an output of shape ${tensor.shape}.", "")
    }
    val length = tensor.shape[at.toInt()]
    val shape = tensor.shape.filterIndexed { index, _ -> index.toLong() != at }
    val inner = tensor.shape.drop(at.toInt() + 1).fold(1, Int::times)
    val keys = sortKeys(tensor)
    val results = buffer(keys.size / length * DType.INT32.bytes)
    if (inner > 0) {
        for (outer in 0 until keys.size / (length * inner)) {
            for (offset in 0 until inner) {
                val begin = outer * length * inner + offset
                var best = 0
                for (index in 1 until length) {
                    if (keys[begin + index * inner] > keys[begin + best * inner]) best = index
                }
                val onlyNaN = tensor.dtype.isFloat && keys[begin + best * inner] == NAN_KEY
                results.putInt(if (onlyNaN) -1 else best)
            }
        }
    }
    return Tensor(DType.INT32, shape, rewound(results))
}

/** For each element a Long of the same order as the elements. */
private fun sortKeys(tensor: Tensor): LongArray {
    val bytes = tensor.bytes()
    val count = bytes.limit() / tensor.dtype.bytes
    return when (tensor.dtype) {
        DType.BOOL, DType.UINT8 -> LongArray(count) { bytes.get(it).toLong() and 0xff }
        DType.INT8 -> LongArray(count) { bytes.get(it).toLong() }
        DType.INT16 -> LongArray(count) { bytes.getShort(2 * it).toLong() }
        DType.UINT16 -> LongArray(count) { bytes.getShort(2 * it).toLong() and 0xffff }
        DType.INT32 -> LongArray(count) { bytes.getInt(4 * it).toLong() }
        DType.UINT32 -> LongArray(count) { bytes.getInt(4 * it).toLong() and 0xffff_ffff }
        DType.INT64 -> LongArray(count) { bytes.getLong(8 * it) }
        DType.UINT64 -> LongArray(count) { bytes.getLong(8 * it) xor Long.MIN_VALUE }
        DType.FLOAT16 -> LongArray(count) { floatKey(halfToDouble(bytes.getShort(2 * it))) }
        DType.FLOAT32 -> LongArray(count) { floatKey(bytes.getFloat(4 * it).toDouble()) }
        DType.FLOAT64 -> LongArray(count) { floatKey(bytes.getDouble(8 * it)) }
    }
}

private fun floatKey(value: Double): Long {
    if (value.isNaN()) return NAN_KEY
    // Adding 0 makes −0 to 0. Bits of negative doubles grow as the number falls: all but the sign are turned over.
    val bits = (value + 0.0).toRawBits()
    return if (bits >= 0) bits else bits xor Long.MAX_VALUE
}

/** IEEE 754 binary16; android.util.Half has it from API 26 only. */
internal fun halfToDouble(half: Short): Double {
    val bits = half.toInt()
    val exponent = (bits shr 10) and 0x1f
    val fraction = bits and 0x3ff
    val magnitude =
        when (exponent) {
            0 -> Math.scalb(fraction.toDouble(), -24)
            0x1f -> if (fraction == 0) Double.POSITIVE_INFINITY else Double.NaN
            else -> Math.scalb((fraction or 0x400).toDouble(), exponent - 25)
        }
    return if (bits and 0x8000 != 0) -magnitude else magnitude
}

private fun buffer(bytes: Int): ByteBuffer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN)

private fun rewound(buffer: ByteBuffer): ByteBuffer = buffer.apply { rewind() }
