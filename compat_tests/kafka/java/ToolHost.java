import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools in one JVM, one after another; a JVM per tool would cost a second each.
 *
 * A line on stdin is a class and its arguments, each in base64, separated by spaces. The line written to stdout for it
 * is the exit status, what the tool wrote to stdout, and what it wrote to stderr, the last two in base64 as well.
 */
public final class ToolHost {
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        Ended() {
            super(null, null, false, false);
        }
    }

    private static final PrintStream NOWHERE = new PrintStream(PrintStream.nullOutputStream());

    private static final List<Runnable> hooks = new ArrayList<>();
    private static volatile Integer status;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure(ToolHost::end);
        Exit.setHaltProcedure(ToolHost::end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(ToolHost::decode).toArray(String[]::new);
            answers.println(run(words[0], Arrays.copyOfRange(words, 1, words.length)));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void end(int code, String message) {
        if (status == null) {
            status = code;
            if (message != null) System.err.println(message);
            System.setErr(NOWHERE); // some tools report what ends them here as an error of theirs
        }
        throw new Ended();
    }

    private static String run(String name, String[] arguments) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        status = null;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace(System.err);
                if (status == null) status = 1;
            }
        } catch (Throwable error) {
            error.printStackTrace(System.err);
            status = 127;
        } finally {
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.setOut(NOWHERE); // what a tool's threads write after its end
            System.setErr(NOWHERE);
        }
        return String.join(" ", String.valueOf(status == null ? 0 : status), encode(out), encode(err));
    }

    private static String decode(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)));
    }

    private static String encode(ByteArrayOutputStream stream) {
        return "=" + Base64.getEncoder().encodeToString(stream.toByteArray());
    }
}
