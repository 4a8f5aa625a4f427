/** Numbers and lengths of texts. */
final class Text {
    private Text() {}

    static long number(String text, int from, int to) {
        return Long.parseLong(text, from, to, 10);
    }

    /** Length in UTF-8, without encoding the text. */
    static long utf8Length(String text) {
        long length = text.length();
        for (int at = 0; at < text.length(); at++) {
            char letter = text.charAt(at);
            // Each half of a surrogate pair is two of the four bytes.
            length += letter < 0x80 ? 0 : letter < 0x800 || Character.isSurrogate(letter) ? 1 : 2;
        }
        return length;
    }

    /**
     * Version in the name of the file of a class: 1.6.0 of Java-WebSocket-1.6.0.jar, without
     * Final.
     */
    static String versionOfFile(Class<?> type) {
        String path = type.getProtectionDomain().getCodeSource().getLocation().getPath();
        return path.replaceAll(".*-(\\d[\\d.]*\\d)(\\.Final)?\\.jar", "$1");
    }
}
