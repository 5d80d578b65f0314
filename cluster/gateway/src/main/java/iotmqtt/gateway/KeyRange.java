package iotmqtt.gateway;

import static org.apache.ignite.cache.query.IndexQueryCriteriaBuilder.gt;
import static org.apache.ignite.cache.query.IndexQueryCriteriaBuilder.gte;
import static org.apache.ignite.cache.query.IndexQueryCriteriaBuilder.lt;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.ignite.cache.query.IndexQuery;
import org.apache.ignite.cache.query.IndexQueryCriterion;

/** The keys with a prefix, as a range of the index. */
final class KeyRange {
    private static final String KEY = "_KEY";

    private KeyRange() {}

    /**
     * A query for this server's entries whose keys start with {@code prefix} and come after {@code after}, in key order.
     *
     * <p>It is local because Ignite cannot merge the answers of several servers by a key of bytes, and because it costs
     * a hundredth of what SQL does. The caller stops reading when it has enough; the query reads on only when asked to.
     *
     * @param after null for "from the first one"
     */
    static IndexQuery<byte[], byte[]> query(byte[] prefix, byte[] after, int pageSize) {
        List<IndexQueryCriterion> criteria = new ArrayList<>();
        criteria.add(
                after == null || Arrays.compareUnsigned(after, prefix) < 0 ? gte(KEY, prefix) : gt(KEY, after));
        byte[] behind = behind(prefix);
        if (behind != null) {
            criteria.add(lt(KEY, behind));
        }
        IndexQuery<byte[], byte[]> query = new IndexQuery<>(byte[].class, GridCaches.INDEX);
        query.setCriteria(criteria);
        query.setPageSize(pageSize);
        query.setLocal(true);
        return query;
    }

    /** Whether no key can have the prefix and come after {@code after}; Ignite would call such a range an error. */
    static boolean empty(byte[] prefix, byte[] after) {
        byte[] behind = behind(prefix);
        return after != null && behind != null && Arrays.compareUnsigned(after, behind) >= 0;
    }

    /** The first key behind all that start with the prefix; null if there is none. */
    static byte[] behind(byte[] prefix) {
        int length = prefix.length;
        while (length > 0 && prefix[length - 1] == (byte) 0xFF) {
            length--;
        }
        if (length == 0) {
            return null;
        }
        byte[] behind = Arrays.copyOf(prefix, length);
        behind[length - 1]++;
        return behind;
    }
}
