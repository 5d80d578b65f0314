package iotmqtt.gateway;

import java.net.InetAddress;
import java.net.UnknownHostException;

/**
 * What is configured.
 *
 * @param outLimit bytes that may wait for a client before its connection is closed
 * @param longestFrame the greatest length of a frame
 * @param quorum with fewer servers than this nothing is answered
 * @param quorumPatience seconds without a quorum after which a server stops
 * @param quorumFirst the same for one that has not been of a quorum yet
 * @param tls null: connections are in plain text
 * @param plain that may be so beyond the loopback interface, too
 */
record Options(
        String host,
        int port,
        String token,
        long outLimit,
        int longestFrame,
        int quorum,
        int quorumPatience,
        int quorumFirst,
        Pem tls,
        boolean plain) {
    private static final int SHORTEST_LONGEST_FRAME = 1 << 10;

    Options {
        if (token.isEmpty()) {
            throw new IllegalArgumentException(
                    "the gateway needs a token: set -Diot.gateway.token to what the brokers are given");
        }
        if (tls == null && !plain && !isLoopback(host)) {
            throw new IllegalArgumentException("the gateway does not listen at " + host + " in plain text, or everybody who"
                    + " reads the traffic has the token: set -Diot.tls.cert, -Diot.tls.key and -Diot.tls.ca, or write out"
                    + " -Diot.tls.plain=true");
        }
        if (longestFrame < SHORTEST_LONGEST_FRAME || outLimit < longestFrame) {
            throw new IllegalArgumentException(
                    "iot.gateway.frame.limit must be 1024 or more, and iot.gateway.out.limit not less than it");
        }
        if (quorum < 1 || quorumPatience < 1 || quorumFirst < 1) {
            throw new IllegalArgumentException("iot.ignite.quorum and what begins like it must be 1 or more");
        }
    }

    private static boolean isLoopback(String host) {
        try {
            return InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException e) {
            return false;
        }
    }
}
