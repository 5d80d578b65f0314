package iotmqtt.gateway;

/**
 * Whose connection it is: the number of a broker node, its life, and which connection of that life.
 *
 * @param node the node's number; 0 is nobody
 */
record Life(int node, long boot, long connection) {
    boolean nobody() {
        return node == 0;
    }

    /** Whether this is an earlier connection of the same node. */
    boolean before(Life other) {
        return node == other.node
                && (boot < other.boot || boot == other.boot && connection < other.connection);
    }

    @Override
    public String toString() {
        return nobody() ? "nobody" : "node " + node + " (boot " + boot + ", connection " + connection + ")";
    }
}
