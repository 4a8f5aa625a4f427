package dev.pitwire.sbe;

/** An error that ends a program: what is wrong, and what to do. */
public final class VenueException extends RuntimeException {
    VenueException(String what, String remedy) {
        super(what + "; " + remedy);
    }

    /** The server sent bytes that the protocol does not allow. */
    static VenueException malformed(Object from, String what) {
        return new VenueException("received " + what + " from " + from,
            "check the address, and that client and venue have the same schema");
    }
}
