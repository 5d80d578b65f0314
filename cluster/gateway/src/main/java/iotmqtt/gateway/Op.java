package iotmqtt.gateway;

/** The operations of the protocol, as PROTOCOL.md numbers them. */
final class Op {
    static final int VERSION = 2;

    static final int HELLO = 0x01;
    static final int COMMIT = 0x02;
    static final int SWAP = 0x03;
    static final int REMOVE_PREFIX = 0x04;
    static final int LISTEN = 0x05;
    static final int UNLISTEN = 0x06;
    static final int SEND = 0x07;
    static final int FENCE = 0x08;
    static final int PING = 0x09;
    static final int READ = 0x0A;

    static final int WELCOME = 0x81;
    static final int REFUSED = 0x82;
    static final int DONE = 0x83;
    static final int DELIVER = 0x84;
    static final int TOPOLOGY = 0x85;
    static final int FOUND = 0x86;
    static final int SWAPPED = 0x87;
    static final int ROOM = 0x88;

    private Op() {}
}
