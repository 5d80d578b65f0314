package iotmqtt.gateway;

/**
 * What is configured.
 *
 * @param outLimit bytes that may wait for a client before its connection is closed
 * @param longestFrame the greatest length of a frame
 * @param quorum with fewer servers than this nothing is answered
 * @param quorumPatience seconds without a quorum after which a server stops
 * @param quorumFirst the same for one that has not been of a quorum yet
 */
record Options(
        String host,
        int port,
        String token,
        long outLimit,
        int longestFrame,
        int quorum,
        int quorumPatience,
        int quorumFirst) {
    private static final int SHORTEST_LONGEST_FRAME = 1 << 10;

    Options {
        if (token.isEmpty()) {
            throw new IllegalArgumentException(
                    "the gateway needs a token: set -Diot.gateway.token to what the brokers are given");
        }
        if (longestFrame < SHORTEST_LONGEST_FRAME || outLimit < longestFrame) {
            throw new IllegalArgumentException(
                    "iot.gateway.frame.limit must be 1024 or more, and iot.gateway.out.limit not less than it");
        }
        if (quorum < 1 || quorumPatience < 1 || quorumFirst < 1) {
            throw new IllegalArgumentException("iot.ignite.quorum and what begins like it must be 1 or more");
        }
    }
}
