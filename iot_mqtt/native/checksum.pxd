"""The CRC-32 of zlib, eight bytes at a time; a call of that one takes longer than most pages of the log do here."""

cdef extern from *:
    """
    #include <stdint.h>
    static uint32_t crc_table[8][256];
    static void make_crc_table(void) {
        uint32_t n, k, c;
        for (n = 0; n < 256; n++) {
            for (c = n, k = 0; k < 8; k++)
                c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
            crc_table[0][n] = c;
        }
        for (n = 0; n < 256; n++)
            for (k = 1; k < 8; k++)
                crc_table[k][n] = crc_table[k - 1][n] >> 8 ^ crc_table[0][crc_table[k - 1][n] & 255];
    }
    static uint32_t crc32_of(const unsigned char *p, Py_ssize_t size) {
        uint32_t c = 0xFFFFFFFFu;
        for (; size >= 8; size -= 8, p += 8)
            c = crc_table[7][(c ^ p[0]) & 255] ^ crc_table[6][(c >> 8 ^ p[1]) & 255]
                ^ crc_table[5][(c >> 16 ^ p[2]) & 255] ^ crc_table[4][c >> 24 ^ p[3]]
                ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
        for (; size > 0; size--, p++)
            c = c >> 8 ^ crc_table[0][(c ^ *p) & 255];
        return ~c;
    }
    """
    #: Once, before the other one.
    void make_crc_table()
    unsigned int crc32_of(const unsigned char* p, Py_ssize_t size)
