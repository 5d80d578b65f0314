package iotmqtt.gateway;

/** A request that is answered with a status other than done, and why. */
final class Refusal extends Exception {
    private static final long serialVersionUID = 1L;

    final transient Status status;

    Refusal(Status status, String reason) {
        // Refusals are answers and not failures of this program: nobody looks at where they were made.
        super(reason, null, false, false);
        this.status = status;
    }

    static Refusal badRequest(String reason) {
        return new Refusal(Status.BAD_REQUEST, reason);
    }

    static Refusal notReady(String reason) {
        return new Refusal(Status.NOT_READY, reason);
    }
}
