import java.util.ArrayList;
import java.util.List;

/** An agent that fills the heap of the JVM that it is loaded into: some of it every few milliseconds, and never lets go. */
public final class HeapFiller {
    private static final int PIECE = 256 << 10;
    private static final int PIECES_AT_ONCE = 8;
    private static final List<byte[]> KEPT = new ArrayList<>();

    private HeapFiller() {}

    /** What a JVM calls in an agent that is loaded while it runs. */
    public static void agentmain(String unused) {
        Thread filler = new Thread(HeapFiller::fill, "heap-filler");
        filler.setDaemon(true);
        filler.start();
    }

    private static void fill() {
        try {
            while (true) {
                for (int piece = 0; piece < PIECES_AT_ONCE; piece++) {
                    KEPT.add(new byte[PIECE]);
                }
                Thread.sleep(10);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
