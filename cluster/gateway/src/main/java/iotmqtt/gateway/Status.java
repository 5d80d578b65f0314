package iotmqtt.gateway;

/** How a request ended; the numbers are those of PROTOCOL.md. */
enum Status {
    DONE(0),
    NOT_READY(1),
    FENCED(2),
    BAD_REQUEST(3),
    NOT_SWAPPED(4),
    WRONG_TOKEN(5),
    UNKNOWN_VERSION(6);

    final int code;

    Status(int code) {
        this.code = code;
    }
}
