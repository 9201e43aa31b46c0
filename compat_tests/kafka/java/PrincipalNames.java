import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * What Kafka's SslPrincipalMapper makes of distinguished names, and how Java writes them. Each line of the file is a word
 * and a value in base64, separated by a space: "rules" to apply to each "name" after them, "subject" (DER).
 *
 * Prints a line for each: the result in base64, or "!" and the class of an error.
 */
public final class PrincipalNames {
    public static void main(String[] arguments) throws Exception {
        SslPrincipalMapper mapper = null;
        StringBuilder found = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ", -1);
            byte[] value = Base64.getDecoder().decode(words[1]);
            String text = new String(value, StandardCharsets.UTF_8);
            try {
                switch (words[0]) {
                    case "rules" -> {
                        mapper = null;
                        mapper = SslPrincipalMapper.fromRules(text);
                        text = "";
                    }
                    case "name" -> text = mapper.getName(text);
                    default -> text = new X500Principal(value).getName();
                }
                found.append('=').append(Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception error) {
                found.append('!').append(error.getClass().getSimpleName());
            }
            found.append('\n');
        }
        System.out.print(found);
    }
}
