package iotmqtt.gateway;

/** What became of connections before they said who they are; in JMX as {@code iotmqtt:type=Gateway,name=Lobby}. */
public interface LobbyMXBean {
    /** Connections that have not said HELLO. */
    int getWaiting();

    /** Connections accepted. */
    long getEntered();

    /** Those that did not say HELLO in time. */
    long getTooLate();

    /** Those that were closed because others came. */
    long getMadeRoom();

    /** Those whose HELLO was refused: a wrong token, another version, a fenced life, no quorum. */
    long getRefused();
}
