package dev.phoneproof.harness.protocol

import java.nio.ByteBuffer
import java.nio.ByteOrder

/** An element type that crosses the wire: its word, bytes of an element, code in output files. */
public enum class DType(
    override val word: String,
    public val bytes: Int,
    public val code: Int,
) : Word {
    BOOL("bool", 1, 1),
    INT8("int8", 1, 2),
    UINT8("uint8", 1, 3),
    INT16("int16", 2, 4),
    UINT16("uint16", 2, 5),
    INT32("int32", 4, 6),
    UINT32("uint32", 4, 7),
    INT64("int64", 8, 8),
    UINT64("uint64", 8, 9),
    FLOAT16("float16", 2, 10),
    FLOAT32("float32", 4, 11),
    FLOAT64("float64", 8, 12),
    ;

    public val isFloat: Boolean get() = this == FLOAT16 || this == FLOAT32 || this == FLOAT64
}

/**
 * A tensor in C order.
 *
 * [data] holds exactly its bytes from position 0 to the limit, little-endian. Whoever gets a tensor reads by
 * index or through [bytes], and leaves position and limit as they are.
 */
public class Tensor(
    public val dtype: DType,
    public val shape: List<Int>,
    public val data: ByteBuffer,
) {
    init {
        require(shape.all { it >= 0 }) { "a length of $shape is negative" }
        val needed = byteCount(dtype, shape.map(Int::toLong))
        require(data.limit().toLong() == needed) { "${data.limit()} bytes for $dtype $shape" }
    }

    /** A view of the data of its own position, little-endian. */
    public fun bytes(): ByteBuffer {
        val view = data.duplicate()
        view.clear().limit(data.limit())
        return view.order(ByteOrder.LITTLE_ENDIAN)
    }
}

/** Bytes of a tensor, or null beyond 64 bits. */
internal fun byteCount(
    dtype: DType,
    shape: List<Long>,
): Long? {
    if (0L in shape) return 0
    return try {
        shape.fold(dtype.bytes.toLong()) { product, length -> Math.multiplyExact(product, length) }
    } catch (_: ArithmeticException) {
        null
    }
}
