package dev.pitwire.sbe;

import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.IOException;

/** A media driver of Aeron in this process, which ends with the standard input. */
final class AeronDriver {
    private AeronDriver() { }

    static void run(String directory) throws IOException {
        var context = new MediaDriver.Context().aeronDirectoryName(directory).dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true).threadingMode(ThreadingMode.SHARED);
        try (var driver = MediaDriver.launch(context)) {
            System.out.println("ready " + driver.aeronDirectoryName());
            while (System.in.read() >= 0) {
                // Only the end matters.
            }
        }
    }
}
